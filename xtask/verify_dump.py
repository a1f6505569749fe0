#!/usr/bin/env python3
"""Verifies a TPC-C dump without Tombolo: recomputes the state hash and the twelve consistency conditions.

Usage: verify_dump.py [--delivered-at-load N] DUMP_DIR

DUMP_DIR holds TABLE.copy for the nine tables, in PostgreSQL's COPY text format: one row a line, columns
separated by tabs in the schema's order, null as \\N. Such a folder is written by `tombolo run tpcc --dump DIR`.

Prints one JSON object {"state_hash": ..., "checks": {"c01": true, ...}, "rows": {TABLE: n}}. Every condition that
fails is explained on standard error, the first few places by name. Exit status 0 when all conditions hold, 1 when
one does not, 2 when the dump cannot be read as one.

This file shares no code with the engine, on purpose, and needs nothing but Python's standard library. Amounts
are integers of cents, never floats.

The state hash is the sum modulo 2^128, over all rows of all tables, of the first 16 bytes (big-endian) of
SHA-256 of the table's name, a tab and the row's text. A sum does not depend on the order of rows.

The conditions are those of TPC-C 3.3.2.1 to 3.3.2.12. Each is checked for the rows that exist on its left side
(a district, an order, a customer ...), so that a stray row breaks the condition that speaks of it and no other.

How condition 11 knows of deliveries: a delivery takes away one NEW_ORDER row, keeps the ORDERS row, and adds
one to C_DELIVERY_CNT of the order's customer, which is 0 after loading. So in a district
    ORDERS - NEW_ORDER = 2,100 + sum of C_DELIVERY_CNT,
2,100 being the orders that are loaded as delivered. The carrier (O_CARRIER_ID) would be the other trace of a
delivery; condition 5 ties it to NEW_ORDER already, and counting it here as well would only repeat that.
"""

import argparse
import hashlib
import json
import os
import sys
from array import array
from collections import defaultdict
from itertools import islice

# Table -> number of columns, in the order in which they are read: orders before their lines.
COLUMNS = {
    "warehouse": 9,
    "district": 11,
    "customer": 21,
    "history": 8,
    "new_order": 3,
    "orders": 8,
    "order_line": 10,
    "item": 5,
    "stock": 17,
}

# Orders of a district that are loaded as delivered (TPC-C 4.3.3.1): those below 2,101.
DELIVERED_AT_LOAD = 2_100

NULL = b"\\N"

# How many places of a failed condition are named.
PLACES_SHOWN = 3


class BadDump(Exception):
    """The files are not a dump of the nine tables; the message says where."""


def cents(text):
    """The amount in cents: b"-10.05" is -1005."""
    if text[-3:-2] != b".":
        raise ValueError("%r is not an amount with two decimals" % text.decode("utf-8", "replace"))
    return int(text[:-3] + text[-2:])


def money(amount):
    """The other way round, for messages."""
    return "%s%d.%02d" % ("-" if amount < 0 else "", abs(amount) // 100, abs(amount) % 100)


class Reader:
    """Reads tables row by row, adds each row to the state hash, and knows where it is."""

    def __init__(self, folder):
        self.folder = folder
        self.counts = {}
        self.where = folder
        self.total = 0

    def rows(self, table):
        columns = COLUMNS[table]
        path = os.path.join(self.folder, table + ".copy")
        prefix = table.encode() + b"\t"
        sha256, from_bytes = hashlib.sha256, int.from_bytes
        total, number = 0, 0
        self.where = path
        with open(path, "rb", buffering=1 << 20) as file:
            for line in file:
                number += 1
                self.where = (path, number)
                if line[-1:] != b"\n":
                    raise ValueError("the last line is cut off")
                line = line[:-1]
                row = line.split(b"\t")
                if len(row) != columns:
                    raise ValueError("%d columns, not %d" % (len(row), columns))
                total += from_bytes(sha256(prefix + line).digest()[:16], "big")
                yield row
        self.counts[table] = number
        self.total += total

    def state_hash(self):
        return "%032x" % (self.total % (1 << 128))

    def place(self):
        return self.where if isinstance(self.where, str) else "%s:%d" % self.where


class District:
    """What the conditions ask of one district."""

    __slots__ = (
        "next_o_id", "ytd", "paid", "deliveries", "orders", "orders_max", "lines_promised",
        "new_orders", "new_orders_min", "new_orders_max", "lines",
    )

    def __init__(self):
        for name in self.__slots__:
            setattr(self, name, 0)


class Database:
    """The tables, reduced to what the conditions need; filled in the order of the fields."""

    def __init__(self, reader, delivered_at_load):
        self.delivered_at_load = delivered_at_load
        self.warehouse_ytd = {}
        self.warehouse_paid = defaultdict(int)
        # Districts that rows speak of but that have no row of their own appear in no condition.
        self.districts = defaultdict(District)
        self.district_keys = {}
        # Customers and orders are numbered in order of appearance; the columns lie in arrays by that number.
        self.customers = {}
        self.balance, self.paid_in, self.paid, self.delivered = (array("q") for _ in range(4))
        self.new_orders = set()
        self.orders = {}
        self.has_carrier = bytearray()
        self.customer_of_order, self.lines_promised, self.lines, self.lines_unlike = (array("q") for _ in range(4))
        self.read_warehouses(reader.rows("warehouse"))
        self.read_districts(reader.rows("district"))
        self.read_customers(reader.rows("customer"))
        self.read_history(reader.rows("history"))
        self.read_new_orders(reader.rows("new_order"))
        self.read_orders(reader.rows("orders"))
        self.read_order_lines(reader.rows("order_line"))
        # No condition speaks of items and stock: they only enter the hash.
        for table in ("item", "stock"):
            for _ in reader.rows(table):
                pass

    def read_warehouses(self, rows):
        for row in rows:
            added(self.warehouse_ytd, int(row[0]), cents(row[8]))

    def read_districts(self, rows):
        for row in rows:
            key = (int(row[1]), int(row[0]))
            added(self.district_keys, key, None)
            district = self.districts[key]
            district.ytd = cents(row[9])
            district.next_o_id = int(row[10])

    def read_customers(self, rows):
        for row in rows:
            key = (int(row[2]), int(row[1]), int(row[0]))
            added(self.customers, key, len(self.customers))
            self.balance.append(cents(row[16]))
            self.paid_in.append(cents(row[17]))
            self.districts[key[:2]].deliveries += int(row[19])
        self.paid = array("q", bytes(8 * len(self.customers)))
        self.delivered = array("q", bytes(8 * len(self.customers)))

    def read_history(self, rows):
        for row in rows:
            amount = cents(row[6])
            warehouse = int(row[4])
            self.warehouse_paid[warehouse] += amount
            self.districts[warehouse, int(row[3])].paid += amount
            customer = self.customers.get((int(row[2]), int(row[1]), int(row[0])))
            if customer is not None:
                self.paid[customer] += amount

    def read_new_orders(self, rows):
        for row in rows:
            key = (int(row[2]), int(row[1]), int(row[0]))
            if key in self.new_orders:
                raise ValueError("the primary key %r appears twice" % (key,))
            self.new_orders.add(key)
            district = self.districts[key[:2]]
            district.new_orders_min = min(district.new_orders_min, key[2]) if district.new_orders else key[2]
            district.new_orders_max = max(district.new_orders_max, key[2])
            district.new_orders += 1

    def read_orders(self, rows):
        for row in rows:
            key = (int(row[2]), int(row[1]), int(row[0]))
            added(self.orders, key, len(self.orders))
            self.customer_of_order.append(self.customers.get(key[:2] + (int(row[3]),), -1))
            self.has_carrier.append(row[5] != NULL)
            promised = int(row[6])
            self.lines_promised.append(promised)
            district = self.districts[key[:2]]
            district.orders += 1
            district.orders_max = max(district.orders_max, key[2])
            district.lines_promised += promised
        self.lines = array("q", bytes(8 * len(self.orders)))
        self.lines_unlike = array("q", bytes(8 * len(self.orders)))

    def read_order_lines(self, rows):
        orders, lines, has_carrier = self.orders, self.lines, self.has_carrier
        for row in rows:
            warehouse, district = int(row[2]), int(row[1])
            self.districts[warehouse, district].lines += 1
            order = orders.get((warehouse, district, int(row[0])))
            if order is None:
                continue
            lines[order] += 1
            is_delivered = row[6] != NULL
            if is_delivered != has_carrier[order]:
                self.lines_unlike[order] += 1
            amount = cents(row[8])
            customer = self.customer_of_order[order]
            if is_delivered and customer >= 0:
                self.delivered[customer] += amount

    def each_district(self):
        for key in self.district_keys:
            yield "district %d/%d" % key, self.districts[key]


def added(table, key, value):
    """Sets a key that must be new."""
    if key in table:
        raise ValueError("the primary key %r appears twice" % (key,))
    table[key] = value


# One function per condition: yields a sentence for each place where it does not hold.


def c01(db):
    districts = defaultdict(int)
    for key in db.district_keys:
        districts[key[0]] += db.districts[key].ytd
    for warehouse, ytd in db.warehouse_ytd.items():
        if ytd != districts[warehouse]:
            yield "warehouse %d: W_YTD %s, sum of D_YTD %s" % (warehouse, money(ytd), money(districts[warehouse]))


def c02(db):
    for name, district in db.each_district():
        last = district.next_o_id - 1
        if last != district.orders_max:
            yield "%s: D_NEXT_O_ID - 1 is %d, max(O_ID) %d" % (name, last, district.orders_max)
        elif district.new_orders and last != district.new_orders_max:
            yield "%s: D_NEXT_O_ID - 1 is %d, max(NO_O_ID) %d" % (name, last, district.new_orders_max)


def c03(db):
    for name, district in db.each_district():
        span = district.new_orders_max - district.new_orders_min + 1 if district.new_orders else 0
        if span != district.new_orders:
            yield "%s: NO_O_ID spans %d orders, there are %d rows" % (name, span, district.new_orders)


def c04(db):
    for name, district in db.each_district():
        if district.lines_promised != district.lines:
            yield "%s: sum of O_OL_CNT %d, ORDER_LINE rows %d" % (name, district.lines_promised, district.lines)


def c05(db):
    for key, order in db.orders.items():
        if bool(db.has_carrier[order]) == (key in db.new_orders):
            carrier = "a carrier" if db.has_carrier[order] else "no carrier"
            row = "a" if key in db.new_orders else "no"
            yield "order %d/%d/%d: %s, and %s NEW_ORDER row" % (key + (carrier, row))
    for key in sorted(db.new_orders - db.orders.keys()):
        yield "order %d/%d/%d: a NEW_ORDER row, and no order" % key


def c06(db):
    for key, order in db.orders.items():
        if db.lines_promised[order] != db.lines[order]:
            yield "order %d/%d/%d: O_OL_CNT %d, lines %d" % (key + (db.lines_promised[order], db.lines[order]))


def c07(db):
    for key, order in db.orders.items():
        if db.lines_unlike[order]:
            carrier = "a carrier" if db.has_carrier[order] else "no carrier"
            unlike = db.lines_unlike[order]
            yield "order %d/%d/%d: %s, and %d lines whose OL_DELIVERY_D says otherwise" % (key + (carrier, unlike))


def c08(db):
    for warehouse, ytd in db.warehouse_ytd.items():
        paid = db.warehouse_paid[warehouse]
        if ytd != paid:
            yield "warehouse %d: W_YTD %s, sum of H_AMOUNT %s" % (warehouse, money(ytd), money(paid))


def c09(db):
    for name, district in db.each_district():
        if district.ytd != district.paid:
            yield "%s: D_YTD %s, sum of H_AMOUNT %s" % (name, money(district.ytd), money(district.paid))


def c10(db):
    for key, customer in db.customers.items():
        expected = db.delivered[customer] - db.paid[customer]
        if db.balance[customer] != expected:
            amounts = (money(db.balance[customer]), money(expected))
            yield "customer %d/%d/%d: C_BALANCE %s, delivered - paid %s" % (key + amounts)


def c11(db):
    for name, district in db.each_district():
        without = district.orders - district.new_orders
        expected = db.delivered_at_load + district.deliveries
        if without != expected:
            yield "%s: %d orders without a NEW_ORDER row, loaded and delivered %d" % (name, without, expected)


def c12(db):
    for key, customer in db.customers.items():
        have = db.balance[customer] + db.paid_in[customer]
        if have != db.delivered[customer]:
            amounts = (money(have), money(db.delivered[customer]))
            yield "customer %d/%d/%d: C_BALANCE + C_YTD_PAYMENT %s, delivered %s" % (key + amounts)


CONDITIONS = [c01, c02, c03, c04, c05, c06, c07, c08, c09, c10, c11, c12]


def verify(folder, delivered_at_load=DELIVERED_AT_LOAD):
    """The result object, and for each failed condition the number of places and the first of them."""
    reader = Reader(folder)
    try:
        db = Database(reader, delivered_at_load)
    except OSError as error:
        raise BadDump("%s: %s" % (error.filename or folder, error.strerror)) from error
    except (ValueError, OverflowError) as error:
        raise BadDump("%s: %s" % (reader.place(), error)) from error
    checks, failures = {}, {}
    for condition in CONDITIONS:
        places = condition(db)
        first = list(islice(places, PLACES_SHOWN))
        checks[condition.__name__] = not first
        if first:
            failures[condition.__name__] = (len(first) + sum(1 for _ in places), first)
    return {"state_hash": reader.state_hash(), "checks": checks, "rows": reader.counts}, failures


def main(arguments):
    parser = argparse.ArgumentParser(
        description="Recomputes a TPC-C dump's state hash and its twelve consistency conditions.",
        epilog="example: verify_dump.py dump/    (after: tombolo run tpcc --dump dump)",
    )
    parser.add_argument("folder", metavar="DUMP_DIR", help="the folder with the nine TABLE.copy files")
    parser.add_argument(
        "--delivered-at-load", metavar="N", type=int, default=DELIVERED_AT_LOAD,
        help="orders of a district that are loaded as delivered (default %(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        result, failures = verify(options.folder, options.delivered_at_load)
    except BadDump as error:
        print("verify_dump: %s" % error, file=sys.stderr)
        return 2
    for name, (count, first) in failures.items():
        print("verify_dump: %s fails at %d places" % (name, count), file=sys.stderr)
        for place in first:
            print("verify_dump:   %s" % place, file=sys.stderr)
    print(json.dumps(result))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
