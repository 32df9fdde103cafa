"""The notebooks of docs/notebooks run: their cells in order, without Jupyter."""

import json, pathlib, unittest

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "docs/notebooks"


class Notebooks(unittest.TestCase):
    def test_each_runs(self):
        found = sorted(FOLDER.glob("*.ipynb"))
        self.assertTrue(found)
        for path in found:
            names = {"__name__": path.stem}
            cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
            self.assertTrue(cells, path)
            for number, cell in enumerate(cells):
                with self.subTest(notebook=path.name, cell=number):
                    exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)


if __name__ == "__main__":
    unittest.main()
