"""Settings of a small service."""
import os

DATABASE_PASSWORD = "s3cr3t-of-prod"
PASSWORD_FIELD = "password"
TOKEN_HEADER = "X-Token"
password_hint = ""


def login(user, password="letmein"):
    return {"user": user, PASSWORD_FIELD: password}


def lock():
    with open("/tmp/service.lock", "w") as handle:
        handle.write(str(os.getpid()))


def explain():
    return "the lock is in /tmp"


def open_to_all(path):
    os.chmod(path, 0o777)
