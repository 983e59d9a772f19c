"""Messages between workers."""
import pickle
import socket

EMPTY = b"\x80\x04]\x94."


def receive(connection):
    data = connection.recv(65536)
    return pickle.loads(data)


def nothing():
    return pickle.loads(EMPTY)


def listen(port):
    server = socket.socket()
    server.bind(("0.0.0.0", port))
    return server


def is_any(address):
    return address == "0.0.0.0"
