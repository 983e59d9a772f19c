"""Makes thumbnails of pictures that users upload."""
import subprocess
import sys

SIZES = ("64x64", "128x128")


def uptime():
    return subprocess.run("uptime", shell=True, capture_output=True).stdout


def version():
    return subprocess.run(["/usr/bin/convert", "-version"], capture_output=True).stdout


def thumbnail(name, size):
    subprocess.run(f"convert uploads/{name} -resize {size} thumbs/{name}", shell=True)


if __name__ == "__main__":
    for size in SIZES:
        thumbnail(sys.argv[1], size)
