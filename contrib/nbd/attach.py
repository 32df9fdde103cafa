#!/usr/bin/env python3
"""Attaches a volume to the kernel's NBD driver, and attaches it again when its server was restarted.

    attach.py data.sock /dev/nbd0          # runs until it is ended; then the device is detached

A file system stays mounted meanwhile: requests that were under way, and new ones, wait for the next server, for
at most WAIT_SECONDS. (nbd-client 3.24 cannot ask the driver for that: with its `-persist`, requests fail while
there is no server.) Needs root and the module `nbd`.
"""

import re
import select
import signal
import socket
import struct
import sys
import time

# A request that got no reply for so long is sent again, over the next connection.
REQUEST_SECONDS = 5
# Requests wait so long for a connection.
WAIT_SECONDS = 600

# linux/netlink.h, linux/genetlink.h, linux/nbd-netlink.h
NETLINK_GENERIC, NLM_F_REQUEST, NLM_F_ACK, NLMSG_ERROR, CTRL = 16, 1, 4, 2, 16
CTRL_GETFAMILY, CTRL_FAMILY_ID, CTRL_FAMILY_NAME = 3, 1, 2
CONNECT, DISCONNECT, RECONFIGURE = 1, 2, 3
INDEX, SIZE, BLOCK_SIZE, TIMEOUT, SERVER_FLAGS, SOCKETS, DEAD_CONN_TIMEOUT = 1, 2, 3, 4, 5, 7, 8
NESTED = 0x8000


def attribute(kind, value):
    """One netlink attribute, padded to four bytes."""
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(-length % 4)


def u32(kind, value):
    return attribute(kind, struct.pack("=I", value))


def u64(kind, value):
    return attribute(kind, struct.pack("=Q", value))


class Driver:
    """The NBD driver's generic netlink interface."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.socket.bind((0, 0))
        reply = self.ask(CTRL, CTRL_GETFAMILY, attribute(CTRL_FAMILY_NAME, b"nbd\0"), 0)
        at = 20
        while at + 4 <= len(reply):
            length, kind = struct.unpack_from("=HH", reply, at)
            if kind == CTRL_FAMILY_ID:
                (self.family,) = struct.unpack_from("=H", reply, at + 4)
                return
            at += (length + 3) & ~3
        sys.exit("attach.py: the kernel has no NBD driver; load the module `nbd`")

    def ask(self, family, command, attributes, flags=NLM_F_ACK):
        body = struct.pack("=BBH", command, 1, 0) + attributes
        head = struct.pack("=IHHII", 16 + len(body), family, NLM_F_REQUEST | flags, 1, 0)
        self.socket.send(head + body)
        while True:
            reply = self.socket.recv(65536)
            kind = struct.unpack_from("=H", reply, 4)[0]
            if kind != NLMSG_ERROR:
                if not flags:
                    return reply
                continue
            (error,) = struct.unpack_from("=i", reply, 16)
            if error:
                raise OSError(-error, f"the NBD driver refuses: error {-error}")
            return reply

    def attach(self, command, index, connection, more=b""):
        fd = attribute(1 | NESTED, u32(1, connection.fileno()))
        self.ask(self.family, command, u32(INDEX, index) + attribute(SOCKETS | NESTED, fd) + more)


def take(connection, length):
    data = b""
    while len(data) < length:
        some = connection.recv(length - len(data))
        if not some:
            raise OSError("the server closed the connection in the handshake")
        data += some
    return data


def connect(path):
    """A connection after the handshake, with the size of the volume and the flags of its export."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(30)
    connection.connect(path)
    if take(connection, 18)[:16] != b"NBDMAGICIHAVEOPT":
        raise OSError(f"{path}: no NBD server")
    # Fixed newstyle, no padding; the default export.
    connection.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, 0))
    size, flags = struct.unpack(">QH", take(connection, 10))
    connection.settimeout(None)
    return connection, size, flags


def connect_again(path):
    while True:
        try:
            return connect(path)
        except OSError:
            time.sleep(0.2)


def main():
    if len(sys.argv) != 3 or not re.fullmatch(r"/dev/nbd\d+", sys.argv[2]):
        sys.exit("usage: attach.py SOCKET /dev/nbdN")
    path, index = sys.argv[1], int(sys.argv[2][len("/dev/nbd") :])
    driver = Driver()
    connection, size, flags = connect(path)
    limits = u64(TIMEOUT, REQUEST_SECONDS) + u64(DEAD_CONN_TIMEOUT, WAIT_SECONDS)
    volume = u64(SIZE, size) + u64(BLOCK_SIZE, 512) + u64(SERVER_FLAGS, flags)
    driver.attach(CONNECT, index, connection, volume + limits)
    print(f"attached: {sys.argv[2]}, {size} bytes", flush=True)

    def end(*_):
        driver.ask(driver.family, DISCONNECT, u32(INDEX, index))
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    while True:
        poll = select.poll()
        poll.register(connection, select.POLLRDHUP)
        poll.poll()
        connection.close()
        connection, now, _ = connect_again(path)
        if now != size:
            sys.exit(f"attach.py: the volume had {size} bytes, and has {now} now")
        driver.attach(RECONFIGURE, index, connection)
        print("attached again", flush=True)


main()
