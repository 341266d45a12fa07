"""Tests of the kernels of R and Java, as a client sees them. Takes the port on which the service listens."""

import unittest

from test_service import Asked, Test, create, execute, of, printed


def text(events):
    (result,) = of("result", events)
    assert result["is_main_result"], result
    return result["text"]


def shown(events):
    """What R shows of a value is not called a main result by its kernel."""
    (result,) = of("result", events)
    return result["text"].strip()


class R(Test):
    def test_a_cell_prints_and_has_a_result(self):
        self.assertEqual(printed(execute('print("Hello, World!")', language="r")), '[1] "Hello, World!"\n')
        context = create(language="r", cwd="/usr")
        self.assertEqual(shown(execute("x <- 2; getwd()", context_id=context["id"])), '[1] "/usr"')
        self.assertEqual(shown(execute("x + 1", context_id=context["id"])), "[1] 3")

    def test_an_error_is_told(self):
        (error,) = of("error", execute('stop("no way")', language="r"))
        self.assertIn("no way", error["value"])

    def test_variables_are_in_force_for_one_cell(self):
        here = "Sys.getenv('WARREN_FOO', unset = 'default')"
        self.assertEqual(shown(execute(here, language="r", env_vars={"WARREN_FOO": "b\"a'r"})), '[1] "b\\"a\'r"')
        self.assertEqual(shown(execute(here, language="r")), '[1] "default"')
        home = "Sys.getenv('HOME')"
        before = shown(execute(home, language="r"))
        self.assertEqual(shown(execute(home, language="r", env_vars={"HOME": "/other"})), '[1] "/other"')
        self.assertEqual(shown(execute(home, language="r")), before)


class Java(Test):
    def test_a_cell_prints_and_the_end_of_it_is_apart(self):
        events = execute('System.out.println("Hello, World!")', language="java")
        self.assertEqual([event["text"] for event in of("stdout", events)], ["Hello, World!", "\n"])
        self.assertEqual(printed(execute('System.err.println("x")', language="java"), "stderr"), "x\n")

    def test_state_stays_and_the_last_expression_is_the_result(self):
        context = create(language="java", cwd="/usr")
        run = lambda code: execute(code, context_id=context["id"])
        self.assertEqual(text(run('System.getProperty("user.dir")')), "/usr")
        self.assertEqual(of("result", run("int twice(int n) { return 2 * n; }\nint x = twice(4);")), [])
        self.assertEqual(text(run("var seen = new ArrayList<Integer>();\nseen.add(x);\nseen")), "[8]")
        self.assertEqual(of("result", run("seen.add(9);")), [], "who ends it so does not want it")
        self.assertEqual(text(run("seen.stream().mapToInt(n -> n).sum()")), "17")
        self.assertEqual(text(run("class P { int a = 3; }\nnew P().a")), "3")

    def test_what_goes_wrong_is_told_and_the_state_stays(self):
        context = create(language="java")
        run = lambda code: execute(code, context_id=context["id"])
        run("int kept = 7;")
        (error,) = of("error", run('throw new IllegalStateException("no way");'))
        self.assertEqual((error["name"], error["value"]), ("java.lang.IllegalStateException", "no way"))
        self.assertIn("IllegalStateException: no way", error["traceback"])
        (error,) = of("error", run("int wrong = nobody;"))
        self.assertEqual(error["name"], "CompilationException")
        self.assertIn("nobody", error["traceback"])
        (error,) = of("error", run("int half = (1 +"))
        self.assertEqual(error["name"], "CompilationException")
        self.assertEqual(text(run("kept")), "7")

    def test_variables_are_properties_for_one_cell(self):
        here = 'System.getProperty("WARREN_FOO", "default")'
        self.assertEqual(text(execute(here, language="java", env_vars={"WARREN_FOO": "bär"})), "bär")
        self.assertEqual(text(execute(here, language="java")), "default")
        home = 'System.getProperty("HOME")'
        before = text(execute(home, language="java"))
        self.assertEqual(before, text(execute('System.getenv("HOME")', language="java")))
        self.assertEqual(text(execute(home, language="java", env_vars={"HOME": "/other"})), "/other")
        self.assertEqual(text(execute(home, language="java")), before)

    def test_a_cell_without_an_end_is_interrupted_and_the_state_stays(self):
        context = create(language="java")
        execute("long kept = 7;", context_id=context["id"])
        events = Asked("POST", "/execute", {"code": "while (true) { kept++; }", "context_id": context["id"], "timeout_s": 2}).events()
        self.assertTrue(events[-1].get("timed_out"), events)
        (error,) = of("error", events)
        self.assertEqual(error["name"], "InterruptedException")
        self.assertEqual(text(execute("kept > 7", context_id=context["id"])), "true")

    def test_one_that_ends_itself_begins_anew(self):
        context = create(language="java")
        (error,) = of("error", execute("System.exit(3);", context_id=context["id"]))
        self.assertEqual(error["name"], "KernelEnded")
        self.assertEqual(text(execute("1 + 1", context_id=context["id"])), "2")


if __name__ == "__main__":
    unittest.main()
