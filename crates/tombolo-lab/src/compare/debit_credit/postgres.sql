CREATE FUNCTION debit_credit(account_id int4, teller_id int4, branch_id int4, amount int8, given int8)
RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE left_over int8;
BEGIN
  UPDATE account SET balance = balance + amount
  WHERE id = account_id AND code = given AND balance + amount BETWEEN 0 AND BALANCE_MAX
  RETURNING balance INTO left_over;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE teller SET balance = balance + amount
  WHERE id = teller_id AND balance + amount BETWEEN 0 AND BALANCE_MAX;
  IF NOT FOUND THEN RAISE EXCEPTION 'teller % cannot pay', teller_id; END IF;
  UPDATE branch SET balance = balance + amount
  WHERE id = branch_id AND balance + amount BETWEEN 0 AND BALANCE_MAX;
  IF NOT FOUND THEN RAISE EXCEPTION 'branch % cannot pay', branch_id; END IF;
  RETURN left_over;
END $$
