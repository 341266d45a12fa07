# Runs in every Python kernel when it starts: tables and figures are shown as data as well.
def _warren_show():
    import datetime
    import functools
    import importlib.abc
    import importlib.util
    import math
    import os
    import sys

    # Values of a table, and points of a figure, above which nobody wants them as text.
    most = 250_000

    def plain(value):
        """A value that JSON has."""
        if hasattr(value, "item") and not hasattr(value, "__len__"):
            try:
                value = value.item()
            except (TypeError, ValueError):
                return str(value)
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, (datetime.date, datetime.time)):
            # There are dates that are none.
            return None if value != value else value.isoformat()
        if isinstance(value, (list, tuple)):
            return [plain(part) for part in value]
        if isinstance(value, dict):
            return {str(name): plain(part) for name, part in value.items()}
        return str(value)

    def rounded(number):
        """Its size, without what the arithmetic of angles leaves behind: eight places after the first."""
        number = abs(float(number))
        if not number or not math.isfinite(number):
            return plain(number)
        return float(f"{number:.{max(1, 8 - math.floor(math.log10(number)))}g}")

    def table(frame):
        if frame.size > most:
            return None
        return {str(name): [plain(value) for value in frame.iloc[:, at]] for at, name in enumerate(frame.columns)}

    def unit(label):
        """What stands in brackets at the end: `Time (s)`."""
        begin = label.rfind("(")
        inside = label[begin + 1 : -1].strip() if begin >= 0 and label.endswith(")") else ""
        return inside or None

    def is_dated(axis):
        from matplotlib import dates

        return isinstance(axis.get_major_locator(), (dates.DateLocator, dates.AutoDateLocator))

    def scale(axis):
        if is_dated(axis):
            return "datetime"
        return "categorical" if is_categorical(axis) else axis.get_scale()

    def is_categorical(axis):
        return type(axis.get_major_formatter()).__name__ == "StrCategoryFormatter"

    def values(axis, numbers):
        """Numbers of an axis as the axis means them."""
        if is_dated(axis):
            from matplotlib import dates

            return [each.replace(tzinfo=None).isoformat() for each in dates.num2date([float(n) for n in numbers])]
        if is_categorical(axis):
            names = {place: name for name, place in axis.units._mapping.items()}
            return [names.get(round(float(n)), plain(float(n))) for n in numbers]
        return [plain(float(n)) for n in numbers]

    def ticks(axis):
        low, high = sorted(axis.get_view_interval())
        margin = (high - low) * 1e-9
        places = [each for each in axis.get_majorticklocs() if low - margin <= each <= high + margin]
        return values(axis, places), [str(text) for text in axis.get_major_formatter().format_ticks(places)]

    def titled(ax, kind, elements):
        return {"type": kind, "title": ax.get_title() or None, "elements": elements}

    def labelled(ax, kind, elements):
        chart = titled(ax, kind, elements)
        for name, label in (("x", ax.get_xlabel()), ("y", ax.get_ylabel())):
            chart[f"{name}_label"], chart[f"{name}_unit"] = label or None, unit(label)
        return chart

    def pointed(ax, kind, elements):
        chart = labelled(ax, kind, elements)
        for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
            chart[f"{name}_ticks"], chart[f"{name}_tick_labels"] = ticks(axis)
            chart[f"{name}_scale"] = scale(axis)
        return chart

    def series(ax, label, xs, ys):
        label = "" if str(label).startswith("_") else str(label)
        points = [list(point) for point in zip(values(ax.xaxis, xs), values(ax.yaxis, ys))]
        return {"label": label, "points": points}

    def own_lines(ax):
        """Lines whose points are data: one across the whole figure has none."""
        return [line for line in ax.lines if line.get_transform() == ax.transData and len(line.get_xdata())]

    def pie(ax):
        from matplotlib.patches import Wedge

        wedges = [patch for patch in ax.patches if isinstance(patch, Wedge)]
        elements = [
            {"label": str(w.get_label()), "angle": rounded(w.theta2 - w.theta1), "radius": plain(float(w.r))}
            for w in wedges
        ]
        return titled(ax, "pie", elements) if elements else None

    def bars(ax):
        from matplotlib.container import BarContainer

        elements = []
        for container in ax.containers:
            if not isinstance(container, BarContainer):
                continue
            upright = getattr(container, "orientation", "vertical") != "horizontal"
            group = str(container.get_label())
            group = "" if group.startswith("_") else group
            axis = ax.xaxis if upright else ax.yaxis
            places, texts = axis.get_majorticklocs(), axis.get_major_formatter().format_ticks(axis.get_majorticklocs())
            for bar in container:
                middle = bar.get_x() + bar.get_width() / 2 if upright else bar.get_y() + bar.get_height() / 2
                reach = abs(bar.get_width() if upright else bar.get_height()) / 2
                near = [(abs(place - middle), text) for place, text in zip(places, texts) if abs(place - middle) < max(reach, 1e-9)]
                label = min(near)[1] if near and isinstance(min(near)[1], str) and min(near)[1] else values(axis, [middle])[0]
                value = bar.get_height() if upright else bar.get_width()
                elements.append({"label": str(label), "group": group, "value": plain(float(value))})
        return labelled(ax, "bar", elements) if elements else None

    def boxes(ax):
        """A box is a closed line or a patch; its median, its whiskers and what lies outside are lines around it."""
        from matplotlib.patches import PathPatch

        lines = [(list(map(float, line.get_xdata(orig=False))), list(map(float, line.get_ydata(orig=False))), line) for line in own_lines(ax)]
        outlines = [(xs, ys) for xs, ys, _ in lines if len(xs) == 5 and xs[0] == xs[-1] and ys[0] == ys[-1]]
        for patch in ax.patches:
            if isinstance(patch, PathPatch):
                outlines.append(([float(x) for x, _ in patch.get_path().vertices], [float(y) for _, y in patch.get_path().vertices]))
        elements = [box for box in (one_box(ax, outline, lines) for outline in outlines) if box]
        return labelled(ax, "box_and_whisker", elements) if elements else None

    def one_box(ax, outline, lines):
        for upright in (True, False):
            across, along = outline if upright else outline[::-1]
            left, right, low, high = min(across), max(across), min(along), max(along)
            middle, width = (left + right) / 2, right - left
            found = {"median": None, "min": low, "max": high, "outliers": []}
            for xs, ys, line in lines:
                sides, heights = (xs, ys) if upright else (ys, xs)
                off = max(abs(side - middle) for side in sides)
                if off < width * 1e-6:
                    if line.get_linestyle() == "None":
                        found["outliers"] += heights
                    elif len(heights) == 2 and (high in heights or low in heights):
                        found["min"], found["max"] = min(found["min"], *heights), max(found["max"], *heights)
                elif len(sides) == 2 and heights[0] == heights[1] and low <= heights[0] <= high and off <= width * 0.51:
                    if (min(sides), max(sides)) == (left, right):
                        found["median"] = heights[0]
            if found["median"] is not None:
                axis = ax.xaxis if upright else ax.yaxis
                texts = dict(zip(axis.get_majorticklocs(), axis.get_major_formatter().format_ticks(axis.get_majorticklocs())))
                near = [texts[place] for place in texts if abs(place - middle) < width]
                label = near[0] if near else str(plain(middle))
                return {"label": str(label), "first_quartile": low, "third_quartile": high, **found}
        return None

    def lines_of(ax):
        elements = [
            series(ax, line.get_label(), line.get_xdata(orig=False), line.get_ydata(orig=False)) for line in own_lines(ax)
        ]
        return pointed(ax, "line", elements) if elements else None

    def scattered(ax):
        from matplotlib.collections import PathCollection

        elements = []
        for collection in ax.collections:
            offsets = collection.get_offsets() if isinstance(collection, PathCollection) else []
            if len(offsets):
                elements.append(series(ax, collection.get_label(), [x for x, _ in offsets], [y for _, y in offsets]))
        return pointed(ax, "scatter", elements) if elements else None

    def count(ax):
        return sum(len(line.get_xdata()) for line in ax.lines) + sum(len(c.get_offsets()) for c in ax.collections) + len(ax.patches)

    def one(ax):
        for read in (pie, boxes, bars, lines_of, scattered):
            chart = read(ax)
            if chart is not None:
                return chart
        return titled(ax, "unknown", [])

    def figure(fig):
        axes = [ax for ax in fig.axes if ax.get_visible() and ax.has_data()]
        if not axes or sum(count(ax) for ax in axes) > most:
            return None
        if len(axes) == 1:
            return one(axes[0])
        title = fig._suptitle.get_text() if fig._suptitle is not None else None
        return {"type": "superchart", "title": title, "elements": [one(ax) for ax in axes]}

    def forgiving(read):
        # A figure that cannot be read is still a picture.
        def attempt(value):
            try:
                return read(value)
            except Exception:
                return None

        return attempt

    def lose_nothing(kernel):
        # A publisher drops what its readers are slow to take.
        thread = kernel.iopub_thread
        thread.schedule(lambda: thread.socket.set_hwm(0))

    from IPython import get_ipython
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    class DataFormatter(BaseFormatter):
        format_type = Unicode("e2b/data")
        print_method = ObjectName("_repr_e2b_data_")
        _return_type = dict

    class ChartFormatter(BaseFormatter):
        format_type = Unicode("e2b/chart")
        print_method = ObjectName("_repr_e2b_chart_")
        _return_type = dict

        # The plotting library takes its figures out of every formatter when it is first used, and so they are known by their name.
        def __call__(self, value):
            names = [(kind.__module__, kind.__name__) for kind in type(value).__mro__]
            return forgiving(figure)(value) if ("matplotlib.figure", "Figure") in names else None

    def show_saved(module):
        """A picture that is saved to a file is shown too."""
        from IPython.display import display

        save = module.Image.save

        @functools.wraps(save)
        def saved(image, fp, format=None, **parameters):
            outcome = save(image, fp, format, **parameters)
            if isinstance(fp, (str, os.PathLike)):
                forgiving(display)(image)
            return outcome

        module.Image.save = saved

    class Pictures(importlib.abc.MetaPathFinder):
        """Waits for the library of pictures, which takes time to load and which most cells do not need."""

        def find_spec(self, name, path=None, target=None):
            if name != "PIL.Image":
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.loader is not None:
                load = spec.loader.exec_module

                def loaded(module):
                    load(module)
                    forgiving(show_saved)(module)

                spec.loader.exec_module = loaded
            return spec

    forgiving(lose_nothing)(get_ipython().kernel)
    sys.meta_path.insert(0, Pictures())
    formatter = get_ipython().display_formatter
    data, chart = DataFormatter(parent=formatter), ChartFormatter(parent=formatter)
    data.for_type_by_name("pandas.core.frame", "DataFrame", forgiving(table))
    # Newer releases say where it is made known, not where it is written.
    data.for_type_by_name("pandas", "DataFrame", forgiving(table))
    formatter.formatters["e2b/data"] = data
    formatter.formatters["e2b/chart"] = chart


_warren_show()
del _warren_show
