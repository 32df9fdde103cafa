"""The module gives what the command gives, to the digit.

ENTRESOL names the command [default: entresol], TRACES the folder of the real traces [default: shared/traces next to the
repository]. Of those that are not there it says so, and the generated ones are compared alone.
"""

import json, os, pathlib, subprocess, sys, tempfile, threading, unittest

import numpy

import entresol

COMMAND = os.environ.get("ENTRESOL", "entresol")
REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
TRACES = pathlib.Path(os.environ.get("TRACES", REPOSITORY.parent / "shared/traces"))
ADVISED_MAX = 150_000
"""Records of a trace that advice is asked for, too: on a long one it takes a minute."""
REAL = ["cloudPhysicsIO.csv.zst", "mqsim_wsrch-small.trace.zst", "lirs_ps.trace.gz"]


def command(*words):
    """What the command writes with --json."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        subprocess.run([COMMAND, *words, "--json", out], check=True, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text())


def without_speed(results):
    """Results without the time that a replay took."""
    times = ("records_per_second", "cpu_seconds")
    return [{name: value for name, value in one.items() if name not in times} for one in results]


class Equal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.traces = {}
        for kind, more in [("zipf", ["--pages", "20000"]), ("tpcc", ["--warehouses", "1"])]:
            path = pathlib.Path(cls.folder.name) / f"{kind}.etr"
            words = [COMMAND, "trace", "generate", kind, "--references", "150000", "--rate", "5000", "--out", path]
            subprocess.run([*words, *more], check=True, stdout=subprocess.DEVNULL)
            cls.traces[kind] = path

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def compare(self, path):
        """Simulations, curves and advice of one trace."""
        trace = entresol.read_trace(path)
        policies = ["none", "lc", "face-gsc", "reuse"]
        words = ["--policy", ",".join(policies), "--dram-percent", "2", "--flash-percent", "4,7"]
        expected = command("simulate", "--trace", path, *words)
        got = entresol.simulate(trace, policies, flash=[0.04, 0.07], dram_percent=2)
        self.assertEqual(len(got), 7, path)
        self.assertEqual(without_speed(got), without_speed(expected), path)
        expected = command("mrc", "--trace", path, "--policy", "lru,clock")
        self.assertEqual(without_speed(entresol.mrc(trace, ["lru", "clock"])), without_speed(expected), path)
        if len(trace) <= ADVISED_MAX:
            expected = command("advise", "--trace", path, "--policy", "face-gsc")
            self.assertEqual(entresol.advise(trace, policy="face-gsc"), expected, path)

    def test_generated_traces(self):
        for path in self.traces.values():
            self.compare(path)

    def test_real_traces(self):
        for name in REAL:
            with self.subTest(trace=name):
                if (TRACES / name).is_file():
                    self.compare(TRACES / name)
                else:
                    print(f"skipped: {name} is not in {TRACES}", file=sys.stderr)

    def test_arrays_and_files_are_one_trace(self):
        path = self.traces["zipf"]
        read = entresol.read_trace(path)
        made = entresol.trace_of(read.pages, read.ops, read.times_us, read.page_bytes, read.name)
        self.assertEqual((len(made), made.unique_pages), (len(read), read.unique_pages))
        self.assertEqual((made.pages.tolist(), made.times_us.tolist()), (read.pages.tolist(), read.times_us.tolist()))
        one, other = (without_speed(entresol.simulate(trace, "face-gsc", [0.08], dram_percent=2)) for trace in (read, made))
        self.assertEqual(one, other)
        self.assertEqual(entresol.mrc([1, 2, 1, 3], "lru", sizes=[2])[0]["policy"], "lru")
        pages = [3, 1, 2, 1]
        for kind in ("u8", "i8", "u4", ">u8", "i2"):
            self.assertEqual(entresol.trace_of(numpy.array(pages, kind)).pages.tolist(), pages, kind)
        self.assertEqual(entresol.trace_of(numpy.array([1, 9, 2, 9], "u8")[::2]).pages.tolist(), [1, 2])
        self.assertEqual(entresol.trace_of(pages, numpy.array([True, False, False, True])).ops.tolist(), [1, 0, 0, 1])

    def test_arrays_are_read_in_place(self):
        for kind in ("u8", "i8"):
            pages = numpy.arange(1000, dtype=kind)
            self.assertTrue(numpy.shares_memory(entresol._array(pages, "u8"), pages), kind)
        try:
            import pyarrow
        except ImportError:
            self.skipTest("there is no pyarrow")
        column = pyarrow.array(range(1000), pyarrow.uint64())
        self.assertEqual(entresol._array(column, "u8").ctypes.data, column.buffers()[1].address)
        self.assertEqual(entresol.trace_of(column).pages.tolist(), column.to_pylist())

    def test_bad_input_is_a_sentence(self):
        trace = entresol.trace_of([1, 2, 3])
        for asked in (
            lambda: entresol.simulate(trace, "tic", flash_percent=4),
            lambda: entresol.simulate(trace, "lc", flash_percent=0),
            lambda: entresol.simulate(trace, "lc", flash=[0.1, 100]),
            lambda: entresol.simulate(trace, "lc", flash=1.5),
            lambda: entresol.simulate(trace, "lc", flash_pages=64, sample=0.1),
            lambda: entresol.trace_of([]),
            lambda: entresol.trace_of([1.5]),
            lambda: entresol.trace_of([-1]),
            lambda: entresol.trace_of([[1], [2]]),
            lambda: entresol.trace_of([1, 2], [0, 3]),
            lambda: entresol.trace_of([1, 2], [0]),
            lambda: entresol.trace_of([1, 2], page_bytes=1000),
            lambda: entresol.read_trace("/nonexistent"),
            lambda: entresol.Cache("tic", 2048),
        ):
            with self.assertRaises(ValueError) as raised:
                asked()
            self.assertNotIn("\n", str(raised.exception))

    def test_other_threads_run_meanwhile(self):
        trace = entresol.read_trace(self.traces["tpcc"])
        ticks, end = [], threading.Event()

        def tick():
            while not end.wait(0.001):
                ticks.append(None)

        thread = threading.Thread(target=tick)
        thread.start()
        shares = []
        entresol.simulate(trace, ["lc", "face-gsc", "reuse"], [0.02, 0.04, 0.08, 0.16], progress=shares.append)
        end.set()
        thread.join()
        self.assertGreater(len(ticks), 5)
        self.assertTrue(all(0 <= share <= 1 for share in shares), shares)

        def stop(_):
            raise KeyError("enough")

        with self.assertRaises(KeyError):
            while True:
                entresol.simulate(trace, ["lc", "face-gsc", "reuse"], [0.02, 0.04, 0.08, 0.16], progress=stop)

    def test_a_policy_step_by_step(self):
        cache = entresol.Cache("face-gsc", 2048)
        self.assertEqual(cache.fetch(7), "absent")
        fates = set()
        for page in range(3000):
            while cache.evict(page, page % 2 == 0) == "full":
                cache.jobs()
            for job in cache.jobs():
                fates.update(name for name in ("drop", "destage", "stay") if job.get(name))
            cache.fetch(page // 2)
        self.assertEqual(fates, {"drop", "destage", "stay"})
        self.assertIn(cache.fetch(2999), ("staged", "flash"))
        valid, dirty = cache.occupancy()
        self.assertTrue(0 < dirty < valid <= 2048)

    def test_tables(self):
        try:
            import pandas, pyarrow
        except ImportError:
            self.skipTest("there is no pandas, or no pyarrow")
        runs = entresol.simulate(entresol.read_trace(self.traces["zipf"]), ["none", "lc"], [0.04])
        for table in (runs.to_pandas(), runs.to_arrow().to_pandas()):
            self.assertEqual(list(table["policy"]), ["none", "lc"])
            self.assertEqual(list(table["flash_hit_rate"]), [run["flash_hit_rate"] for run in runs])
        self.assertIn("<table", runs._repr_html_())
        trace = entresol.trace_of([5, 6], [0, 2])
        self.assertEqual(trace.to_arrow().to_pydict(), {"page": [5, 6], "op": [0, 2]})
        self.assertEqual(list(trace.to_pandas()["op"]), ["read", "dirty"])

    def test_parquet(self):
        try:
            import pyarrow, pyarrow.parquet
        except ImportError:
            self.skipTest("there is no pyarrow")
        read = entresol.read_trace(self.traces["zipf"])
        path = pathlib.Path(self.folder.name) / "zipf.parquet"
        pyarrow.parquet.write_table(read.to_arrow(), path, compression="zstd")
        words = ["--policy", "lc", "--flash-percent", "4"]
        # The name of the trace, and what is computed of it.
        differ = lambda results: [{**one, "trace": None, "digest": None} for one in without_speed(results)]
        expected = command("simulate", "--trace", self.traces["zipf"], *words)
        self.assertEqual(differ(command("simulate", "--trace", path, *words)), differ(expected))
        self.assertEqual(differ(entresol.simulate(path, "lc", [0.04])), differ(expected))
        table = pyarrow.table({"offset": [0, 8192, None]})
        pyarrow.parquet.write_table(table, path)
        with self.assertRaisesRegex(ValueError, "row without a value"):
            entresol.read_trace(path)


if __name__ == "__main__":
    unittest.main()
