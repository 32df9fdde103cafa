"""Clients of a volume by libnbd: odd sizes, and clients that misbehave. Argument: the URI of the export.

A mirror in memory says what must be there. Exit status 0, or an exception."""

import os
import random
import socket
import sys
import urllib.parse

import nbd

URI = sys.argv[1]
SOCKET = urllib.parse.parse_qs(urllib.parse.urlsplit(URI).query)["socket"][0]


def connect(strict=True):
    client = nbd.NBD()
    if not strict:
        client.set_strict_mode(0)
    client.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    client.connect_uri(URI)
    return client


def refused(call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        assert error.errnum in (22, 28, 75, None), error
        return
    raise AssertionError(f"{call} {arguments} was not refused")


def odd_sizes(client, mirror):
    size = len(mirror)
    rng = random.Random(1)
    for step in range(400):
        sectors = rng.choice([1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 129, 1000])
        offset = rng.randrange(size // 512 - sectors) * 512
        length = sectors * 512
        choice = rng.randrange(10)
        if choice < 4:
            data = rng.randbytes(length)
            client.pwrite(data, offset, nbd.CMD_FLAG_FUA if choice == 0 else 0)
            mirror[offset : offset + length] = data
        elif choice == 4:
            client.zero(length, offset, nbd.CMD_FLAG_NO_HOLE if step % 2 else 0)
            mirror[offset : offset + length] = bytes(length)
        elif choice == 5:
            client.trim(length, offset)
            left = client.pread(length, offset)
            for at in range(0, length, 512):
                was = mirror[offset + at : offset + at + 512]
                assert left[at : at + 512] in (was, bytes(512)), (step, offset + at)
            mirror[offset : offset + length] = left
        elif choice == 6:
            client.cache(length, offset)
        else:
            assert client.pread(length, offset) == mirror[offset : offset + length], (step, offset)
    # The largest request, and the last bytes.
    largest = min(32 << 20, size // 512 * 512)
    assert client.pread(largest, size - largest) == mirror[size - largest :]
    assert client.pread(512, size - 512) == mirror[-512:]


def statuses(client, size):
    extents = []
    client.block_status(size, 0, lambda context, offset, entries, error: extents.extend(entries) or 0)
    # Data is always true; zeros are claimed only where they are durable.
    assert sum(extents[::2]) >= 1 and all(flags in (0, 3) for flags in extents[1::2]), extents


def misbehaves(mirror):
    size = len(mirror)
    other = connect()
    # Requests that no client may send.
    rude = connect(strict=False)
    refused(rude.pread, 512, size)
    refused(rude.pread, 1024, size - 512)
    refused(rude.pwrite, bytes(512), size)
    refused(rude.pread, 100, 0)
    refused(rude.pwrite, bytes(512), 17)
    refused(rude.zero, 1 << 31, 0)
    assert rude.pread(512, 0) == mirror[:512]
    # One that leaves in the middle of a write, and in the middle of a handshake.
    for part in (0, 10, 28, 28 + 512):
        leaver = socket.socket(socket.AF_UNIX)
        leaver.connect(SOCKET)
        leaver.recv(18, socket.MSG_WAITALL)
        leaver.sendall((3).to_bytes(4, "big") + b"IHAVEOPT" + (1).to_bytes(4, "big") + (0).to_bytes(4, "big"))
        leaver.recv(10, socket.MSG_WAITALL)
        head = bytes.fromhex("25609513") + bytes.fromhex("0000") + (1).to_bytes(2, "big") + bytes(8)
        request = head + (0).to_bytes(8, "big") + (4096).to_bytes(4, "big") + b"\xff" * 4096
        leaver.sendall(request[:part])
        leaver.close()
    for garbage in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(5000)):
        rude = socket.socket(socket.AF_UNIX)
        rude.connect(SOCKET)
        try:
            rude.sendall(garbage)
        except OSError:
            pass
        rude.close()
    # One that asks for much and reads nothing.
    deaf = connect()
    for at in range(100):
        deaf.aio_pread(nbd.Buffer(1 << 20), at % 8 << 20)
    # Nothing of a write that was cut off is there, and the others go on.
    assert other.pread(65536, 0) == mirror[:65536]
    other.pwrite(b"\x01" * 512, 512)
    mirror[512:1024] = b"\x01" * 512
    assert other.pread(65536, 0) == mirror[:65536]


client = connect()
assert client.can_multi_conn() and client.can_flush() and client.can_fua() and client.can_zero()
volume = bytearray()
for begin in range(0, client.get_size(), 8 << 20):
    volume += client.pread(min(8 << 20, client.get_size() - begin), begin)
odd_sizes(client, volume)
statuses(client, len(volume))
misbehaves(volume)
client.flush()
assert connect().pread(1 << 20, 0) == volume[: 1 << 20]
client.shutdown()
print("ok")
