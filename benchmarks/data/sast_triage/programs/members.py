"""Members of a club in SQLite."""
import sqlite3

TABLE = "members"


def connect(path):
    return sqlite3.connect(path)


def find(connection, name):
    return connection.execute("SELECT id, name FROM members WHERE name = '%s'" % name).fetchall()


def count(connection):
    return connection.execute("SELECT COUNT(*) FROM " + TABLE).fetchone()[0]


def rename(connection, member, name):
    connection.execute(f"UPDATE {TABLE} SET name = ? WHERE id = ?", (name, member))


def search(connection, column, text):
    query = "SELECT id, name FROM members WHERE {} LIKE ?".format(column)
    return connection.execute(query, (f"%{text}%",)).fetchall()
