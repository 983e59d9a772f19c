"""Fetches pages."""
import urllib.request

import requests

STATUS = "https://status.example.org/index.json"
LOCAL = "https://127.0.0.1:8443/health"


def status():
    return urllib.request.urlopen(STATUS).read()


def preview(url):
    return urllib.request.urlopen(url).read()


def pay(url, amount):
    return requests.post(url, json={"amount": amount}, verify=False, timeout=10)


def health():
    return requests.get(LOCAL, verify=False, timeout=2).ok


def mirror(url):
    return requests.get(url).content
