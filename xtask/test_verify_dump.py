#!/usr/bin/env python3
"""Tests of verify_dump.py on tiny dumps made by hand: one whole, and one broken for each condition.

The whole dump is one warehouse with two districts; in each, three loaded orders are delivered, one was delivered
since, and two are still new. Every broken dump differs from it just so that one condition fails and no other:
that shows that each condition is checked by itself, not merely that something was noticed.
"""

import contextlib
import hashlib
import io
import json
import os
import random
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import verify_dump  # noqa: E402 (found only after the path is set)

DELIVERED_AT_LOAD = 3
DATE = "2000-01-01 00:00:00"
NULL = r"\N"

# Columns that the tests change, by their place in the row.
W_YTD, D_YTD, D_NEXT_O_ID = 8, 9, 10
C_BALANCE, C_YTD_PAYMENT, C_DELIVERY_CNT = 16, 17, 19
H_D_ID, H_AMOUNT = 3, 6
NO_O_ID = 0
O_CARRIER_ID, O_OL_CNT = 5, 6
OL_DELIVERY_D, OL_AMOUNT = 6, 8


def order_rows(dump, district, number, customer, lines, carrier):
    """An order with its lines; what is not delivered has amounts, what was loaded as delivered has none."""
    loaded = number <= DELIVERED_AT_LOAD
    row = [number, district, 1, customer, DATE, carrier, lines, 1]
    dump["orders"].append(row)
    for line in range(1, lines + 1):
        delivery = NULL if carrier == NULL else DATE
        amount = "0.00" if loaded else "%d.25" % (10 * number + line)
        dump["order_line"].append([number, district, 1, line, line, 1, delivery, 5, amount, "d" * 24])


def whole():
    """A dump that meets every condition: table -> rows."""
    dump = {table: [] for table in verify_dump.COLUMNS}
    address = ["a", "b", "c", "ST", "123411111"]
    dump["warehouse"].append([1, "name"] + address + ["0.1000", "45.00"])
    for district, ytd in ((1, "25.00"), (2, "20.00")):
        dump["district"].append([district, 1, "name"] + address + ["0.0500", ytd, 7])
        for customer in (1, 2):
            row = [customer, district, 1, "first", "OE", "BARBARBAR"] + address + ["phone", DATE, "GC", "50000.00"]
            dump["customer"].append(row + ["0.1000", "-10.00", "10.00", 1, 0, "tab \\t and line \\n"])
            dump["history"].append([customer, district, 1, district, 1, DATE, "10.00", "data"])
        for number in range(1, 7):
            carrier = 4 if number <= DELIVERED_AT_LOAD + 1 else NULL
            order_rows(dump, district, number, 1 + number % 2, 1 + number % 3, carrier)
            if carrier == NULL:
                dump["new_order"].append([number, district, 1])
        # The fourth order, of customer 1 with two lines, was delivered since: 41.25 + 42.25.
        delivered_to = dump["customer"][-2]
        delivered_to[C_BALANCE], delivered_to[C_DELIVERY_CNT] = "73.50", 1
    # Customer 2 of district 1 paid once more.
    dump["history"].append([2, 1, 1, 1, 1, DATE, "5.00", "data"])
    payer = dump["customer"][1]
    payer[C_BALANCE], payer[C_YTD_PAYMENT] = "-15.00", "15.00"
    dump["item"].append([1, 7, "item", "9.99", "data"])
    dump["stock"].append([1, 1, 50] + ["d" * 24] * 10 + [0, 0, 0, "data"])
    return dump


def write(folder, dump):
    for table, rows in dump.items():
        with open(os.path.join(folder, table + ".copy"), "w", encoding="utf-8", newline="\n") as file:
            file.writelines("\t".join(str(column) for column in row) + "\n" for row in rows)


def line_of(dump, district, number, line):
    return next(row for row in dump["order_line"] if row[:4] == [number, district, 1, line])


def order_of(dump, district, number):
    return next(row for row in dump["orders"] if row[:2] == [number, district])


class VerifyDump(unittest.TestCase):
    def run_on(self, dump, prepare=None):
        """Exit status, standard output and standard error of the program."""
        with tempfile.TemporaryDirectory() as folder:
            write(folder, dump)
            if prepare:
                prepare(folder)
            output, errors = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
                status = verify_dump.main(["--delivered-at-load", str(DELIVERED_AT_LOAD), folder])
            return status, output.getvalue(), errors.getvalue()

    def assert_only(self, condition, dump):
        status, output, errors = self.run_on(dump)
        failed = [name for name, holds in json.loads(output)["checks"].items() if not holds]
        self.assertEqual(failed, [condition], errors)
        self.assertEqual(status, 1)
        self.assertIn("verify_dump: %s fails at" % condition, errors)

    def test_a_whole_dump_holds(self):
        status, output, errors = self.run_on(whole())
        result = json.loads(output)
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(list(result["checks"]), ["c%02d" % number for number in range(1, 13)])
        self.assertTrue(all(result["checks"].values()))
        rows = {"warehouse": 1, "district": 2, "customer": 4, "history": 5, "new_order": 4, "orders": 12}
        rows.update({"order_line": 24, "item": 1, "stock": 1})
        self.assertEqual(result["rows"], rows)

    def test_c01_payments_to_a_district_that_is_not_there(self):
        dump = whole()
        dump["warehouse"][0][W_YTD] = "46.00"
        dump["history"].append([9, 9, 1, 9, 1, DATE, "1.00", "data"])
        self.assert_only("c01", dump)

    def test_c02_the_next_order_number_runs_ahead(self):
        dump = whole()
        dump["district"][0][D_NEXT_O_ID] = 8
        self.assert_only("c02", dump)

    def test_c03_a_gap_among_the_new_orders(self):
        # Order 5 was delivered and order 3 was not: only the order of deliveries is wrong.
        dump = whole()
        next(row for row in dump["new_order"] if row[:2] == [5, 1])[NO_O_ID] = 3
        order_of(dump, 1, 5)[O_CARRIER_ID] = 1
        order_of(dump, 1, 3)[O_CARRIER_ID] = NULL
        for line in (1, 2, 3):
            line_of(dump, 1, 5, line)[OL_DELIVERY_D] = DATE
            line_of(dump, 1, 5, line)[OL_AMOUNT] = "0.00"
        line_of(dump, 1, 3, 1)[OL_DELIVERY_D] = NULL
        self.assert_only("c03", dump)

    def test_c04_a_line_without_an_order(self):
        dump = whole()
        dump["order_line"].append([99, 1, 1, 1, 1, 1, DATE, 5, "1.00", "d"])
        self.assert_only("c04", dump)

    def test_c05_a_carrier_is_lost(self):
        dump = whole()
        order_of(dump, 1, 3)[O_CARRIER_ID] = NULL
        line_of(dump, 1, 3, 1)[OL_DELIVERY_D] = NULL
        self.assert_only("c05", dump)

    def test_c05_a_new_order_row_without_an_order(self):
        # Condition 11 counts rows and condition 3 the span, so both are kept content.
        dump = whole()
        dump["orders"].remove(order_of(dump, 1, 5))
        dump["order_line"] = [row for row in dump["order_line"] if row[:2] != [5, 1]]
        dump["customer"][0][C_DELIVERY_CNT] = 0
        self.assert_only("c05", dump)

    def test_c06_two_orders_swap_their_line_counts(self):
        dump = whole()
        order_of(dump, 1, 3)[O_OL_CNT], order_of(dump, 1, 4)[O_OL_CNT] = 2, 1
        self.assert_only("c06", dump)

    def test_c07_a_delivered_line_has_no_date(self):
        dump = whole()
        line_of(dump, 1, 2, 3)[OL_DELIVERY_D] = NULL
        self.assert_only("c07", dump)

    def test_c08_a_payment_the_warehouse_did_not_count(self):
        dump = whole()
        dump["history"].append([9, 9, 1, 9, 1, DATE, "0.01", "data"])
        self.assert_only("c08", dump)

    def test_c09_a_payment_counted_for_the_other_district(self):
        dump = whole()
        dump["history"][0][H_D_ID] = 2
        self.assert_only("c09", dump)

    def test_c10_a_cent_moves_from_balance_to_payments(self):
        dump = whole()
        dump["customer"][1][C_BALANCE], dump["customer"][1][C_YTD_PAYMENT] = "-15.01", "15.01"
        self.assert_only("c10", dump)

    def test_c11_a_delivery_too_many_is_counted(self):
        dump = whole()
        dump["customer"][3][C_DELIVERY_CNT] = 1
        self.assert_only("c11", dump)

    def test_c11_a_loaded_order_is_missing(self):
        dump = whole()
        dump["orders"].remove(order_of(dump, 2, 1))
        dump["order_line"] = [row for row in dump["order_line"] if row[:2] != [1, 2]]
        self.assert_only("c11", dump)

    def test_c12_a_payment_is_counted_twice(self):
        dump = whole()
        dump["customer"][1][C_YTD_PAYMENT] = "25.00"
        self.assert_only("c12", dump)

    def test_a_district_may_have_no_new_orders(self):
        dump = whole()
        dump["new_order"] = [row for row in dump["new_order"] if row[1] != 2]
        for number in (5, 6):
            order_of(dump, 2, number)[O_CARRIER_ID] = 1
        for row in dump["order_line"]:
            if row[1] == 2 and row[0] > 4:
                row[OL_DELIVERY_D], row[OL_AMOUNT] = DATE, "0.00"
        dump["customer"][2][C_DELIVERY_CNT], dump["customer"][3][C_DELIVERY_CNT] = 2, 1
        self.assertEqual(self.run_on(dump)[0], 0)

    def test_the_hash_is_the_sum_over_rows(self):
        dump, expected = whole(), 0
        for table, rows in dump.items():
            for row in rows:
                text = table + "\t" + "\t".join(str(column) for column in row)
                expected += int(hashlib.sha256(text.encode()).hexdigest()[:32], 16)
        output = self.run_on(dump)[1]
        self.assertEqual(json.loads(output)["state_hash"], "%032x" % (expected % 2**128))

    def test_the_hash_ignores_the_order_of_rows_but_not_a_byte(self):
        dump = whole()
        first = json.loads(self.run_on(dump)[1])["state_hash"]
        for rows in dump.values():
            random.Random(1).shuffle(rows)
        self.assertEqual(json.loads(self.run_on(dump)[1])["state_hash"], first)
        dump["stock"][0][-1] = "datb"
        self.assertNotEqual(json.loads(self.run_on(dump)[1])["state_hash"], first)

    def test_what_is_no_dump_is_refused_by_name(self):
        def appended(table, text):
            def prepare(folder):
                with open(os.path.join(folder, table + ".copy"), "a", encoding="utf-8") as file:
                    file.write(text)
            return prepare

        cases = {
            "stock.copy: No such file": lambda folder: os.remove(os.path.join(folder, "stock.copy")),
            "item.copy:2: 2 columns, not 5": appended("item", "1\tx\n"),
            "new_order.copy:5: the last line is cut off": appended("new_order", "6\t1\t1"),
            "new_order.copy:5: the primary key (1, 1, 6) appears twice": appended("new_order", "6\t1\t1\n"),
            "new_order.copy:5: invalid literal": appended("new_order", "six\t1\t1\n"),
            "history.copy:6: '5' is not an amount": appended("history", "1\t1\t1\t1\t1\td\t5\tx\n"),
        }
        for message, prepare in cases.items():
            with self.subTest(message):
                status, output, errors = self.run_on(whole(), prepare)
                self.assertEqual((status, output), (2, ""))
                self.assertIn(message, errors)
                self.assertEqual(errors.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
