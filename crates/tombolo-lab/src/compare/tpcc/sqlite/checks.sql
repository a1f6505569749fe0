-- The twelve consistency conditions (3.3.2.1 - 3.3.2.12) asked of SQLite: each query finds a place where its condition
-- does not hold. What is called "sums" begins every query; sums that a query does not name are not made.

-- # sums
WITH delivered(c, amount) AS MATERIALIZED (
    SELECT CAST((o_key >> 31) << 12 | o_c_id AS INTEGER), sum(ol_amount)
    FROM order_line JOIN orders ON o_key = ol_key >> 4
    WHERE ol_delivery_d IS NOT NULL GROUP BY 1),
paid(c, amount) AS MATERIALIZED (
    SELECT CAST((h_c_w_id << 4 | h_c_d_id) << 12 | h_c_id AS INTEGER), sum(h_amount)
    FROM history GROUP BY 1),
received(d, amount) AS MATERIALIZED (
    SELECT CAST(h_w_id << 4 | h_d_id AS INTEGER), sum(h_amount) FROM history GROUP BY 1)

-- # c01
SELECT 'warehouse ' || w_id FROM warehouse
WHERE w_ytd <> (SELECT coalesce(sum(d_ytd), 0) FROM district
                WHERE d_key BETWEEN w_id << 4 AND w_id << 4 | 15)

-- # c02
SELECT 'district ' || d_key FROM district
WHERE d_next_o_id - 1 <> (SELECT coalesce(max(o_id), 0) FROM orders
                          WHERE o_key BETWEEN d_key << 31 AND (d_key + 1 << 31) - 1)
   OR d_next_o_id - 1 <> (SELECT max(no_o_id) FROM new_order
                          WHERE no_key BETWEEN d_key << 31 AND (d_key + 1 << 31) - 1)

-- # c03
SELECT 'district ' || d_key FROM district
WHERE (SELECT max(no_o_id) - min(no_o_id) + 1 <> count(*) FROM new_order
       WHERE no_key BETWEEN d_key << 31 AND (d_key + 1 << 31) - 1)

-- # c04
SELECT 'district ' || d_key FROM district
WHERE (SELECT coalesce(sum(o_ol_cnt), 0) FROM orders
       WHERE o_key BETWEEN d_key << 31 AND (d_key + 1 << 31) - 1)
   <> (SELECT count(*) FROM order_line
       WHERE ol_key BETWEEN d_key << 35 AND (d_key + 1 << 35) - 1)

-- # c05
SELECT 'order ' || o_key FROM orders LEFT JOIN new_order ON no_key = o_key
WHERE (o_carrier_id IS NULL) <> (no_key IS NOT NULL)
UNION ALL
SELECT 'new order ' || no_key FROM new_order LEFT JOIN orders ON o_key = no_key
WHERE o_key IS NULL

-- # c06
SELECT 'order ' || o_key FROM orders
WHERE o_ol_cnt <> (SELECT count(*) FROM order_line
                   WHERE ol_key BETWEEN o_key << 4 AND o_key << 4 | 15)

-- # c07
SELECT 'line ' || ol_key FROM order_line JOIN orders ON o_key = ol_key >> 4
WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)

-- # c08
SELECT 'warehouse ' || w_id FROM warehouse
WHERE w_ytd <> (SELECT coalesce(sum(h_amount), 0) FROM history WHERE h_w_id = w_id)

-- # c09
SELECT 'district ' || d_key FROM district LEFT JOIN received ON received.d = d_key
WHERE d_ytd <> coalesce(received.amount, 0)

-- # c10
SELECT 'customer ' || c_key FROM customer
LEFT JOIN delivered ON delivered.c = c_key LEFT JOIN paid ON paid.c = c_key
WHERE c_balance <> coalesce(delivered.amount, 0) - coalesce(paid.amount, 0)

-- # c11
SELECT 'district ' || d_key FROM district
WHERE (SELECT count(*) FROM orders
       WHERE o_key BETWEEN d_key << 31 AND (d_key + 1 << 31) - 1)
    - (SELECT count(*) FROM new_order
       WHERE no_key BETWEEN d_key << 31 AND (d_key + 1 << 31) - 1)
   <> 2100 + (SELECT coalesce(sum(c_delivery_cnt), 0) FROM customer
              WHERE c_key BETWEEN d_key << 12 AND d_key << 12 | 4095)

-- # c12
SELECT 'customer ' || c_key FROM customer LEFT JOIN delivered ON delivered.c = c_key
WHERE c_balance + c_ytd_payment <> coalesce(delivered.amount, 0)
