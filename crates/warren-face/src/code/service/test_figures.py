"""Tests of what tables and figures are told as. Takes the port on which the service listens."""

import base64
import unittest

from test_service import Test, execute, of

PLOT = "import matplotlib.pyplot as plt\nplt.close('all')\n"


def chart(code):
    (result,) = of("result", execute(PLOT + code + "\nplt.show()"))
    assert base64.b64decode(result["png"]).startswith(b"\x89PNG"), result
    return result["chart"]


class Figures(Test):
    def test_lines_have_points_ticks_and_units(self):
        told = chart(
            "plt.plot([0, 1, 2], [0.5, 1, 4], label='one'); plt.plot([0, 1], [3, float('nan')], label='two')\n"
            "plt.axhline(2); plt.xlabel('Time (s)'); plt.ylabel('Height'); plt.title('Growth'); plt.yscale('log')"
        )
        self.assertEqual((told["type"], told["title"]), ("line", "Growth"))
        self.assertEqual((told["x_label"], told["x_unit"], told["y_label"], told["y_unit"]), ("Time (s)", "s", "Height", None))
        self.assertEqual((told["x_scale"], told["y_scale"]), ("linear", "log"))
        points = [{"label": "one", "points": [[0, 0.5], [1, 1], [2, 4]]}, {"label": "two", "points": [[0, 3], [1, None]]}]
        self.assertEqual(told["elements"], points)
        self.assertEqual(len(told["x_ticks"]), len(told["x_tick_labels"]))
        self.assertIn(1.0, told["x_ticks"])

    def test_dates_and_names_are_told_as_such(self):
        told = chart("import datetime as d\nplt.plot([d.date(2024, 1, day) for day in (1, 2, 3)], ['a', 'b', 'a'])")
        self.assertEqual((told["x_scale"], told["y_scale"]), ("datetime", "categorical"))
        self.assertEqual(told["elements"][0]["points"][1], ["2024-01-02T00:00:00", "b"])
        self.assertEqual(told["y_tick_labels"], ["a", "b"])

    def test_scattered_points(self):
        told = chart("plt.scatter([1, 2], [3, 4], label='dots')")
        self.assertEqual((told["type"], told["elements"]), ("scatter", [{"label": "dots", "points": [[1, 3], [2, 4]]}]))

    def test_bars_have_names_groups_and_values(self):
        told = chart("plt.bar(['A', 'B'], [10, 20], label='Sold')")
        bars = [{"label": "A", "group": "Sold", "value": 10}, {"label": "B", "group": "Sold", "value": 20}]
        self.assertEqual((told["type"], told["elements"]), ("bar", bars))
        told = chart("plt.barh(['A', 'B'], [10, 20])")
        self.assertEqual([(bar["label"], bar["value"]) for bar in told["elements"]], [("A", 10), ("B", 20)])

    def test_a_pie_has_angles(self):
        told = chart("plt.pie([1, 3], labels=['x', 'y']); plt.title('Shares')")
        pieces = [{"label": "x", "angle": 90, "radius": 1}, {"label": "y", "angle": 270, "radius": 1}]
        self.assertEqual((told["type"], told["title"], told["elements"]), ("pie", "Shares", pieces))

    def test_angles_of_a_pie_are_rounded(self):
        told = chart("plt.pie([90, 10], startangle=90)")
        self.assertEqual([piece["angle"] for piece in told["elements"]], [324, 36])

    def test_boxes_have_quartiles_and_outliers(self):
        for options in ("", ", vert=False", ", patch_artist=True"):
            with self.subTest(options):
                told = chart(f"plt.boxplot([[1, 2, 3, 4, 5, 50], [2, 4, 6, 8]], labels=['p', 'q']{options})")
                self.assertEqual((told["type"], [box["label"] for box in told["elements"]]), ("box_and_whisker", ["p", "q"]))
                first = {"label": "p", "min": 1, "first_quartile": 2.25, "median": 3.5, "third_quartile": 4.75, "max": 5, "outliers": [50]}
                self.assertEqual(told["elements"][0], first)

    def test_several_axes_are_one_chart_of_charts(self):
        told = chart("f, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.bar([1], [2]); f.suptitle('Both')")
        self.assertEqual((told["type"], told["title"]), ("superchart", "Both"))
        self.assertEqual([part["type"] for part in told["elements"]], ["line", "bar"])

    def test_what_is_not_understood_is_still_a_picture(self):
        self.assertEqual(chart("plt.imshow([[1, 2], [3, 4]])")["type"], "unknown")

    def test_a_picture_that_is_saved_to_a_file_is_shown(self):
        made = "import io, os, tempfile\nfrom PIL import Image\nplace = os.path.join(tempfile.mkdtemp(), 'a.png')\n"
        made += "picture = Image.new('RGB', (4, 4))\n"
        (result,) = of("result", execute(made + "picture.save(place)\nos.stat(place).st_size > 0 or 1 / 0\nNone"))
        self.assertTrue(base64.b64decode(result["png"]).startswith(b"\x89PNG"), result)
        self.assertFalse(result["is_main_result"])
        self.assertEqual(of("result", execute(made + "picture.save(io.BytesIO(), 'PNG')")), [])

    def test_a_table_is_told_as_columns(self):
        code = "import pandas as pd\npd.DataFrame({'n': [1, 2], 'f': [0.5, None], 's': ['a', 'b'], 't': pd.to_datetime(['2024-01-02', None])})"
        (result,) = of("result", execute(code))
        columns = {"n": [1, 2], "f": [0.5, None], "s": ["a", "b"], "t": ["2024-01-02T00:00:00", None]}
        self.assertEqual(result["data"], columns)
        self.assertIn("<table", result["html"])
        self.assertTrue(result["is_main_result"])


if __name__ == "__main__":
    unittest.main(warnings="ignore")
