"""The code interpreter."""

import base64
import re

import e2b
import pytest
from kit import done, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def coder(kit):
    return await kit.make(kit.Coder)


@pytest.mark.core
async def test_state_stays_between_cells(coder):
    await done(coder.run_code("x = 20"))
    told = await done(coder.run_code("print('said'); x + 1"))
    assert told.text == "21" and told.error is None
    assert "".join(told.logs.stdout) == "said\n"
    again = await done(coder.run_code("x"))
    assert again.text == "20" and again.execution_count > told.execution_count


@pytest.mark.core
async def test_errors_have_a_traceback(coder):
    told = await done(coder.run_code("def f():\n    return 1 / 0\nf()"))
    assert (told.error.name, told.error.value) == ("ZeroDivisionError", "division by zero")
    assert "1 / 0" in re.sub(r"\x1b\[[0-9;]*m", "", told.error.traceback)


async def test_output_is_told_as_it_comes(kit, coder):
    out, err, results = [], [], []
    hooks = {"on_stdout": out.append, "on_stderr": err.append, "on_result": results.append}
    await done(coder.run_code("import sys\nprint('a')\nprint('b', file=sys.stderr)\n'c'", **hooks))
    assert "".join(line.line for line in out) == "a\n" and "".join(line.line for line in err) == "b\n"
    assert [result.text for result in results] == ["c"]


async def test_rich_results(coder):
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [2, 4, 8])\nplt.title('growth')\nplt.show()"
    told = await done(coder.run_code(plot))
    picture = next(result for result in told.results if result.png)
    assert base64.b64decode(picture.png).startswith(b"\x89PNG")
    assert picture.chart is not None and picture.chart.title == "growth"
    table = await done(coder.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2]})"))
    assert "<table" in table.results[0].html
    shown = await done(coder.run_code("from IPython.display import JSON, SVG, Markdown, display\ndisplay(JSON({'k': 1}))\ndisplay(Markdown('**m**'))"))
    assert shown.results[0].json == {"k": 1} and shown.results[1].markdown == "**m**"


async def test_contexts_do_not_see_one_another(coder):
    one = await done(coder.create_code_context(cwd="/tmp"))
    await done(coder.run_code("y = 'one'", context=one))
    assert (await done(coder.run_code("import os; os.getcwd()", context=one))).text == "/tmp"
    assert (await done(coder.run_code("y"))).error.name == "NameError"
    assert one.id in [context.id for context in await done(coder.list_code_contexts())]
    await done(coder.restart_code_context(one))
    assert (await done(coder.run_code("y", context=one))).error.name == "NameError"
    await done(coder.remove_code_context(one))
    with pytest.raises(e2b.SandboxException):
        await done(coder.run_code("1", context=one))


async def test_variables_of_the_sandbox_and_of_one_cell(kit):
    coder = await kit.make(kit.Coder, envs={"WHOSE": "sandbox"})
    ask = "import os; os.environ.get('WHOSE'), os.environ.get('CELL')"
    assert (await done(coder.run_code(ask))).text == "('sandbox', None)"
    assert (await done(coder.run_code(ask, envs={"CELL": "this"}))).text == "('sandbox', 'this')"
    assert (await done(coder.run_code(ask))).text == "('sandbox', None)"


async def test_javascript(coder):
    await done(coder.run_code("const x = [1, 2, 3]", language="js"))
    told = await done(coder.run_code("console.log('said'); x.map(n => n * 2)", language="js"))
    assert "".join(told.logs.stdout) == "said\n" and "2, 4, 6" in told.text.replace("\n", " ")
    failed = await done(coder.run_code("throw new TypeError('no')", language="js"))
    assert failed.error.name == "TypeError"


@pytest.mark.core
async def test_a_cell_that_takes_too_long_is_stopped(coder):
    await done(coder.run_code("kept = 'here'"))
    with pytest.raises(e2b.TimeoutException):
        await done(coder.run_code("import time\ntime.sleep(1000)", timeout=2))

    async def goes_on():
        try:
            return (await done(coder.run_code("kept", timeout=5))).text == "here"
        except e2b.TimeoutException:
            return False

    await until(goes_on, 60)


async def test_a_service_that_is_killed_comes_back(coder):
    await done(coder.run_code("1"))
    await done(coder.commands.run("pkill -9 -f '[i]pykernel' || true", user="root"))

    async def answers():
        try:
            return (await done(coder.run_code("2", timeout=10))).text == "2"
        except e2b.SandboxException:
            return False

    await until(answers, 90)
