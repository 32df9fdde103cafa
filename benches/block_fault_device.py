"""A file as a device whose requests fail on demand: a plug-in of nbdkit (`nbdkit python THIS file=F fault=G`).

While the file G is there, its words say what fails: an operation (pread, pwrite or flush), the name of an error, and
for reads and writes, if wanted, the offset and the length of the range.
"""

import errno
import os

import nbdkit

API_VERSION = 2
paths = {}


def config(key, value):
    paths[key] = value


def open(readonly):
    return os.open(paths["file"], os.O_RDWR)


def close(handle):
    os.close(handle)


def get_size(handle):
    return os.fstat(handle).st_size


def can_multi_conn(handle):
    return True


def thread_model():
    return nbdkit.THREAD_MODEL_PARALLEL


def fail_if_told(operation, offset=0, length=0):
    try:
        descriptor = os.open(paths["fault"], os.O_RDONLY)
    except FileNotFoundError:
        return
    words = os.read(descriptor, 200).decode().split()
    os.close(descriptor)
    if len(words) < 2 or words[0] != operation:
        return
    if len(words) == 4:
        first, count = int(words[2]), int(words[3])
        if offset + length <= first or first + count <= offset:
            return
    nbdkit.set_error(getattr(errno, words[1]))
    raise RuntimeError(f"{operation} fails, as told")


def pread(handle, buffer, offset, flags):
    fail_if_told("pread", offset, len(buffer))
    buffer[:] = os.pread(handle, len(buffer), offset)


def pwrite(handle, buffer, offset, flags):
    fail_if_told("pwrite", offset, len(buffer))
    os.pwrite(handle, buffer, offset)


def flush(handle, flags):
    fail_if_told("flush")
    os.fdatasync(handle)
