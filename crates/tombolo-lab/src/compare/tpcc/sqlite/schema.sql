-- The tables, each with its key and the columns that are computed from it in the place of {...}, and the indexes.

-- # paper
CREATE TABLE warehouse (w_id INTEGER PRIMARY KEY, w_ytd, w_tax, w_name, w_street_1,
    w_street_2, w_city, w_state, w_zip);
CREATE TABLE district ({d_key}, d_next_o_id, d_ytd, d_tax, d_name, d_street_1,
    d_street_2, d_city, d_state, d_zip);
CREATE TABLE customer ({c_key}, c_balance, c_ytd_payment, c_payment_cnt,
    c_delivery_cnt, c_discount, c_credit, c_last, c_first, c_credit_lim, c_middle,
    c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_data);
CREATE TABLE history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount,
    h_data);
CREATE TABLE new_order ({no_key});
CREATE TABLE orders ({o_key}, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local);
CREATE TABLE order_line ({ol_key}, ol_delivery_d, ol_i_id, ol_supply_w_id, ol_quantity,
    ol_amount, ol_dist_info);
CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_price, i_data, i_name, i_im_id);
CREATE TABLE stock ({s_key}, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_data,
    s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
    s_dist_08, s_dist_09, s_dist_10);
CREATE INDEX new_order_by_warehouse ON new_order (no_w_id, no_o_id);

-- # standard
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id);
