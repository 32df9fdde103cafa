"""Files on a volume whose server is killed, for `cargo xtask block test`.

    block_files.py write FOLDER NOTES SEED    four writers make and replace files, sync them, and note in NOTES, which is
                                              outside of the volume, what was begun and what was synced; until killed
    block_files.py check FOLDER NOTES         every synced file has its content: prints their number; else exit status 1
"""
import hashlib, os, random, sys, threading


def write(root, noted, seed):
    lock, log = threading.Lock(), open(noted, "a")

    def note(name, what, data):
        with lock:
            log.write(f"{name} {what} {hashlib.sha256(data).hexdigest()}\n")
            log.flush()

    def one(task):
        rng = random.Random(f"{seed}/{task}")
        for number in range(1 << 30):
            name = f"{task}-{number % 40}"
            data = rng.randbytes(rng.randrange(1, 200_000))
            note(name, "begun", data)
            path = os.path.join(root, name)
            with open(path + ".new", "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(path + ".new", path)
            folder = os.open(root, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
            note(name, "synced", data)

    for task in range(4):
        threading.Thread(target=one, args=(task,), daemon=True).start()
    threading.Event().wait()


def check(root, noted):
    synced, begun = {}, {}
    for line in open(noted):
        words = line.split()
        if len(words) < 3 or len(words[2]) < 64:
            continue  # The writer was killed in the middle of the last line.
        name, what, sha = words
        if what == "begun":
            begun[name] = sha
        else:
            begun.pop(name, None)
            synced[name] = sha
    wrong = 0
    for name, sha in synced.items():
        path = os.path.join(root, name)
        found = hashlib.sha256(open(path, "rb").read()).hexdigest() if os.path.exists(path) else "nothing"
        # A file that was being replaced is the old one or the new one.
        if found not in (sha, begun.get(name)):
            wrong += 1
            print(f"{name}: {found}, noted {sha}")
    # What is there now is what counts from here on.
    with open(noted, "w") as log:
        for name in sorted(synced):
            data = open(os.path.join(root, name), "rb").read()
            log.write(f"{name} synced {hashlib.sha256(data).hexdigest()}\n")
    print(len(synced))
    return wrong > 0


what, *arguments = sys.argv[1:]
sys.exit({"write": write, "check": check}[what](*arguments))
