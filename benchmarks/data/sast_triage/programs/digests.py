"""Digests of passwords and of pages."""
import hashlib

PAGE = b"<html></html>"


def store_password(users, name, password):
    users[name] = hashlib.md5(password.encode()).hexdigest()


def page_tag():
    return hashlib.md5(PAGE).hexdigest()[:8]


def colour_of(nick):
    return int(hashlib.sha1(nick.encode()).hexdigest()[:6], 16)


def sign(secret, message):
    return hashlib.sha1(secret + message).hexdigest()
