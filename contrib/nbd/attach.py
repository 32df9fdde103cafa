#!/usr/bin/env python3
"""Attaches a volume to the kernel's nbd driver, and again whenever its server was started again.

    attach.py SOCKET EXPORT /dev/nbdN [--dead-seconds S] [--timeout-seconds S] [--look-seconds S]

Runs until the device is disconnected (nbd-client -d /dev/nbdN). While there is no server, the kernel holds requests
for --dead-seconds (default 600), so a file system stays mounted over a restart. A request that was under way when
the server died is sent again --timeout-seconds after it began (default 30). A volume that has grown is found within
--look-seconds (default 5), and the device grows with it.

nbd-client cannot do this: the kernel holds requests only for devices that were set up over netlink with a "dead
connection timeout", and nbd-client 3.24 does not set one. Needs root and the module nbd; Python's library alone.
"""
import argparse, os, re, select, socket, struct, sys, time

# linux/genetlink.h, linux/nbd-netlink.h
CONTROL, GET_FAMILY, FAMILY_ID, FAMILY_NAME, GROUPS, GROUP_NAME, GROUP_ID = 0x10, 3, 1, 2, 7, 1, 2
CONNECT, RECONFIGURE, LINK_DEAD = 1, 3, 4
INDEX, SIZE, BLOCK_SIZE, TIMEOUT, SERVER_FLAGS, SOCKETS, DEAD_TIMEOUT, BACKEND = 1, 2, 3, 4, 5, 7, 8, 10
REQUEST, ACK, ERROR, NESTED = 1, 4, 2, 0x8000
ADD_MEMBERSHIP = 1
# The NBD protocol's
OPTION_GO, REPLY_ACK, REPLY_INFO, INFO_EXPORT = 7, 1, 3, 0


class Refused(Exception):
    """The server answers, and does not offer the export."""


def receive(stream, count):
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise ConnectionError("the server has closed the connection")
        data += more
    return data


def open_export(path, name):
    """A connection in its transmission phase, the export's size and its flags."""
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(30)
    stream.connect(path)
    magic, options, _ = struct.unpack(">8s8sH", receive(stream, 18))
    if (magic, options) != (b"NBDMAGIC", b"IHAVEOPT"):
        raise Refused("it is no NBD server of the newstyle")
    name = name.encode()
    data = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
    # Fixed newstyle, no zeroes.
    stream.sendall(struct.pack(">I", 3) + struct.pack(">8sII", b"IHAVEOPT", OPTION_GO, len(data)) + data)
    export = None
    while True:
        _, _, kind, length = struct.unpack(">QIII", receive(stream, 20))
        data = receive(stream, length)
        if kind == REPLY_INFO and struct.unpack(">H", data[:2])[0] == INFO_EXPORT:
            export = struct.unpack(">QH", data[2:12])
        elif kind == REPLY_ACK and export:
            # The kernel's from here on.
            stream.settimeout(None)
            return (stream, *export)
        elif kind & 1 << 31:
            raise Refused(f"error {kind & 0x7FFFFFFF}: {data.decode(errors='replace')}")


def attribute(kind, data):
    data = struct.pack("=HH", 4 + len(data), kind) + data
    return data + bytes(-len(data) % 4)


def attributes(data):
    while len(data) >= 4:
        length, kind = struct.unpack("=HH", data[:4])
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) // 4 * 4:]


def backend(options):
    """Which volume it is: the driver refuses another one for a device that has this one."""
    return attribute(BACKEND, f"{os.path.realpath(options.socket)} {options.export}\0".encode())


class Netlink:
    """The driver's generic netlink family."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
        self.socket.bind((0, 0))
        reply = self.ask(CONTROL, GET_FAMILY, attribute(FAMILY_NAME, b"nbd\0"))
        found = dict(attributes(reply))
        self.family = struct.unpack("=H", found[FAMILY_ID])[0]
        # A socket of its own: news do not mix with answers.
        self.news = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
        self.news.bind((0, 0))
        for _, group in attributes(found[GROUPS]):
            number = struct.unpack("=I", dict(attributes(group))[GROUP_ID])[0]
            self.news.setsockopt(270, ADD_MEMBERSHIP, number)

    def ask(self, family, command, data):
        """The attributes of the answer. OSError: the kernel refuses."""
        message = struct.pack("=BBH", command, 1, 0) + data
        self.socket.send(struct.pack("=IHHII", 16 + len(message), family, REQUEST | ACK, 1, 0) + message)
        answer = b""
        while True:
            received = self.socket.recv(1 << 16)
            while received:
                length, kind = struct.unpack("=IH", received[:6])
                body, received = received[16:length], received[(length + 3) // 4 * 4:]
                if kind == ERROR:
                    code = -struct.unpack("=i", body[:4])[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                    return answer
                answer = body[4:]

    def give(self, command, index, stream, size, flags, options):
        """Hands the connection to the device, for the first time or anew."""
        item = attribute(1 | NESTED, attribute(1, struct.pack("=I", stream.fileno())))
        data = attribute(INDEX, struct.pack("=I", index))
        data += attribute(SIZE, struct.pack("=Q", size)) + attribute(BLOCK_SIZE, struct.pack("=Q", 512))
        data += attribute(TIMEOUT, struct.pack("=Q", options.timeout_seconds))
        data += attribute(DEAD_TIMEOUT, struct.pack("=Q", options.dead_seconds))
        data += attribute(SERVER_FLAGS, struct.pack("=Q", flags)) + attribute(SOCKETS | NESTED, item)
        data += backend(options)
        self.ask(self.family, command, data)

    def grow(self, index, size, options):
        """Tells the device the volume's new size."""
        data = attribute(INDEX, struct.pack("=I", index)) + attribute(SIZE, struct.pack("=Q", size))
        data += attribute(BLOCK_SIZE, struct.pack("=Q", 512)) + backend(options)
        self.ask(self.family, RECONFIGURE, data)

    def wait(self, index, seconds):
        """Whether the kernel says within that time that the device's connection is dead."""
        end = time.monotonic() + seconds
        while select.select([self.news], [], [], max(0, end - time.monotonic()))[0]:
            message = self.news.recv(1 << 16)
            found = dict(attributes(message[20:]))
            if message[16] == LINK_DEAD and struct.unpack("=I", found.get(INDEX, b"\xff" * 4))[0] == index:
                return True
        return False


def size_now(options):
    """The volume's size, or None while there is no server that tells it."""
    try:
        stream, size, _ = open_export(options.socket, options.export)
    except (OSError, Refused):
        return None
    with stream:
        # NBD_CMD_DISC
        stream.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 2, 0, 0, 0))
    return size


def watch(netlink, index, size, options):
    """Until the connection is dead. False: the device was disconnected."""
    looked = time.monotonic()
    while not netlink.wait(index, 1):
        if not is_attached(index):
            return False
        if time.monotonic() - looked >= options.look_seconds:
            found, looked = size_now(options), time.monotonic()
            if found and found > size:
                size = found
                try:
                    netlink.grow(index, size, options)
                except OSError as error:
                    print(f"cannot grow {options.device} to {size} bytes: {error.strerror}", file=sys.stderr, flush=True)
                    continue
                print(f"grown: {options.device}, {size} bytes", flush=True)
    return True


def is_attached(index):
    return os.path.exists(f"/sys/block/nbd{index}/pid")


def main():
    parser = argparse.ArgumentParser(description="attaches a volume to the kernel's nbd driver, and stays")
    for name in ["socket", "export", "device"]:
        parser.add_argument(name)
    parser.add_argument("--dead-seconds", type=int, default=600)
    parser.add_argument("--timeout-seconds", type=int, default=30)
    parser.add_argument("--look-seconds", type=int, default=5)
    options = parser.parse_args()
    number = re.fullmatch(r"/dev/nbd(\d+)", options.device)
    if not number:
        sys.exit(f"{options.device}: is no nbd device; give one such as /dev/nbd0")
    index = int(number[1])
    try:
        netlink = Netlink()
    except OSError as error:
        sys.exit(f"the kernel's nbd driver cannot be asked ({error}); load it: modprobe nbd")
    command = RECONFIGURE if is_attached(index) else CONNECT
    is_first, began = True, time.monotonic()
    while True:
        try:
            stream, size, flags = open_export(options.socket, options.export)
            netlink.give(command, index, stream, size, flags, options)
            stream.close()
        except (OSError, Refused) as error:
            if is_first:
                sys.exit(f"{options.device} and {options.socket}: {error}")
            if time.monotonic() - began > options.dead_seconds:
                sys.exit(f"{options.socket}: {error}; the kernel holds no requests any more: unmount {options.device}")
            time.sleep(0.2)
            continue
        print(f"{'attached' if command == CONNECT else 'attached again'}: {options.device}, {size} bytes", flush=True)
        # It looks at the device, too: one that is disconnected sends no news.
        if not watch(netlink, index, size, options):
            return
        is_first, command, began = False, RECONFIGURE, time.monotonic()


if __name__ == "__main__":
    main()
