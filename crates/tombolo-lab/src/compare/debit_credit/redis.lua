local call, amount = redis.call, ARGV[2]
local code = call('GET', KEYS[2])
if not code or call('EXISTS', KEYS[3], KEYS[4]) < 2 then return -3 end
if string.sub(code, 1, 19) ~= ARGV[1] then return -1 end
local a = call('INCRBY', KEYS[1], amount)
local t = call('INCRBY', KEYS[3], amount)
local b = call('INCRBY', KEYS[4], amount)
if a < 0 or t < 0 or b < 0 or a > 9e15 or t > 9e15 or b > 9e15 then
  call('DECRBY', KEYS[1], amount)
  call('DECRBY', KEYS[3], amount)
  call('DECRBY', KEYS[4], amount)
  return -2
end
return a
