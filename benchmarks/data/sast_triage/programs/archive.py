"""Unpacks and reads what users send."""
import tarfile
import tempfile
import xml.etree.ElementTree as ET

TEMPLATE = "<note><to/></note>"


def unpack(upload, folder):
    with tarfile.open(upload) as archive:
        archive.extractall(folder)


def parse(upload):
    return ET.parse(upload)


def template():
    return ET.fromstring(TEMPLATE)


def scratch():
    return tempfile.mktemp()
