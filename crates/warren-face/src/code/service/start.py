# The first lines of the service; `SOURCES`, all of its texts by name, stand above them. Nothing of it is ever a file, so that nobody
# finds it in what a sandbox has changed, and a sandbox cannot change it.
import sys

# What lies in the working directory is not ours.
sys.path[:] = [place for place in sys.path if place]

import importlib.abc
import importlib.util


class Bundle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name == "warren_code":
            return importlib.util.spec_from_loader(name, self, is_package=True)
        if name == "warren_code.assets" or name.startswith("warren_code.") and f"{name[12:]}.py" in SOURCES:
            return importlib.util.spec_from_loader(name, self)
        return None

    def exec_module(self, module):
        if module.__name__ == "warren_code.assets":
            module.asset = SOURCES.__getitem__
        elif module.__name__ != "warren_code":
            name = f"{module.__name__[12:]}.py"
            exec(compile(SOURCES[name], f"<{name}>", "exec"), module.__dict__)


sys.meta_path.insert(0, Bundle())

from warren_code import serve

serve.main(sys.argv[1:])
