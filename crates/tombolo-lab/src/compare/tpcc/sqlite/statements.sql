-- The statements of the five transactions that are the same whatever is bought, each under its name.

-- # begin
BEGIN

-- # commit
COMMIT

-- # rollback
ROLLBACK

-- # order_parties
SELECT d_next_o_id, d_tax, w_tax, c_discount, c_last, c_credit
FROM district CROSS JOIN warehouse CROSS JOIN customer
WHERE d_key = ?1 AND w_id = ?2 AND c_key = ?3

-- # next_order
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_key = ?1

-- # insert_order
INSERT INTO orders (o_key, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
VALUES (?1, ?2, ?3, ?4, ?5)

-- # insert_new_order
INSERT INTO new_order (no_key) VALUES (?1)

-- # payment_parties
SELECT w_name, d_name, c_last, c_credit, c_credit_lim, c_discount, c_balance
FROM warehouse CROSS JOIN district CROSS JOIN customer
WHERE w_id = ?1 AND d_key = ?2 AND c_key = ?3

-- # pay_warehouse
UPDATE warehouse SET w_ytd = w_ytd + ?2 WHERE w_id = ?1

-- # pay_district
UPDATE district SET d_ytd = d_ytd + ?2 WHERE d_key = ?1

-- # pay
UPDATE customer SET c_balance = c_balance - ?2, c_ytd_payment = c_ytd_payment + ?2,
    c_payment_cnt = c_payment_cnt + 1
WHERE c_key = ?1

-- # pay_bad_credit
UPDATE customer SET c_balance = c_balance - ?2, c_ytd_payment = c_ytd_payment + ?2,
    c_payment_cnt = c_payment_cnt + 1, c_data = substr(?3 || c_data, 1, 500)
WHERE c_key = ?1

-- # insert_history
INSERT INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- # customers_named
SELECT c_key FROM customer INDEXED BY customer_by_name
WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_last = ?3 ORDER BY c_first

-- # status_customer
SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_key = ?1

-- # newest_order
SELECT o_key, o_entry_d, o_carrier_id
FROM orders INDEXED BY orders_by_customer
WHERE o_w_id = ?1 AND o_d_id = ?2 AND o_c_id = ?3 ORDER BY o_key DESC LIMIT 1

-- # status_lines
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
FROM order_line WHERE ol_key BETWEEN ?1 AND ?2

-- # oldest_new_order
SELECT min(no_key) FROM new_order WHERE no_key BETWEEN ?1 AND ?2

-- # delivered_order
SELECT o_c_id, (SELECT sum(ol_amount) FROM order_line WHERE ol_key BETWEEN ?2 AND ?3)
FROM orders WHERE o_key = ?1

-- # delete_new_order
DELETE FROM new_order WHERE no_key = ?1

-- # set_carrier
UPDATE orders SET o_carrier_id = ?2 WHERE o_key = ?1

-- # deliver_lines
UPDATE order_line SET ol_delivery_d = ?3 WHERE ol_key BETWEEN ?1 AND ?2

-- # deliver_customer
UPDATE customer SET c_balance = c_balance + ?2,
c_delivery_cnt = c_delivery_cnt + 1 WHERE c_key = ?1

-- # stock_level
SELECT count(DISTINCT s_key)
FROM district CROSS JOIN order_line CROSS JOIN stock
WHERE d_key = ?1
  AND ol_key BETWEEN (?2 + d_next_o_id - 20) << 4
                 AND ((?2 + d_next_o_id) << 4) - 1
  AND s_key = ?3 + ol_i_id AND s_quantity < ?4
