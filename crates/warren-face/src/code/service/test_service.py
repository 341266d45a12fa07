"""Tests of the service as a client sees it. Takes the port on which it listens."""

import http.client
import json
import os
import socket
import sys
import threading
import unittest

PORT = int(sys.argv.pop(1))

# Nothing here is expected to take as long as this.
PATIENCE = 120


class Asked:
    """One request, whose answer may still be growing."""

    def __init__(self, method, path, fields=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=PATIENCE)
        self.connection.request(method, path, None if fields is None else json.dumps(fields))
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def text(self):
        text = self.response.read().decode()
        self.connection.close()
        return text

    def json(self):
        return json.loads(self.text())

    def event(self):
        line = self.response.readline()
        assert line.endswith(b"\n"), line
        return json.loads(line)

    def events(self):
        return [json.loads(line) for line in self.text().splitlines()]

    def hang_up(self):
        # The response has its own hold on the connection.
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()


def execute(code, **fields):
    events = Asked("POST", "/execute", {"code": code, **fields}).events()
    assert events[-1]["type"] == "end_of_execution", events
    return [event for event in events if event["type"] not in ("keepalive", "end_of_execution")]


def of(kind, events):
    return [event for event in events if event["type"] == kind]


def printed(events, name="stdout"):
    return "".join(event["text"] for event in of(name, events))


MADE = []


def create(**fields):
    MADE.append(Asked("POST", "/contexts", fields).json())
    return MADE[-1]


class Test(unittest.TestCase):
    def tearDown(self):
        while MADE:
            Asked("DELETE", f"/contexts/{MADE.pop()['id']}").text()


class Cells(Test):
    def test_a_cell_counts_prints_and_has_a_result(self):
        context = create()
        events = execute("import sys; print('a'); print('b', file=sys.stderr); 'quoted'", context_id=context["id"])
        self.assertEqual(events[0], {"type": "number_of_executions", "execution_count": 1})
        self.assertEqual((printed(events), printed(events, "stderr")), ("a\n", "b\n"))
        self.assertRegex(of("stdout", events)[0]["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
        self.assertEqual(of("result", events), [{"type": "result", "text": "quoted", "is_main_result": True}])
        self.assertEqual(execute("1", context_id=context["id"])[0]["execution_count"], 2)

    def test_state_stays_and_belongs_to_its_context(self):
        one, other = create(), create()
        execute("kept = 41", context_id=one["id"])
        self.assertEqual(of("result", execute("kept + 1", context_id=one["id"]))[0]["text"], "42")
        self.assertEqual(of("error", execute("kept", context_id=other["id"]))[0]["name"], "NameError")

    def test_an_error_has_a_name_a_value_and_one_traceback(self):
        (error,) = of("error", execute("def f():\n    1/0\nf()"))
        self.assertEqual((error["name"], error["value"]), ("ZeroDivisionError", "division by zero"))
        self.assertIn("ZeroDivisionError", error["traceback"])
        (error,) = of("error", execute("this is no python"))
        self.assertEqual(error["name"], "SyntaxError")

    def test_what_has_several_forms_is_told_in_all_of_them(self):
        code = (
            "from IPython.display import display, HTML, Markdown, JSON, SVG, Latex, Javascript\n"
            "display(HTML('<b>h</b>')); display(Markdown('*m*')); display(JSON({'a': [1]}))\n"
            "display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')); display(Latex('$x$')); display(Javascript('1'))\n"
            "display({'text/plain': 'p', 'application/x-own': 1}, raw=True)"
        )
        results = of("result", execute(code))
        self.assertEqual(results[0]["html"], "<b>h</b>")
        self.assertEqual(results[1]["markdown"], "*m*")
        self.assertEqual(results[2]["json"], {"a": [1]})
        self.assertIn("<svg", results[3]["svg"])
        self.assertEqual((results[4]["latex"], results[5]["javascript"]), ("$x$", "1"))
        own = {"type": "result", "text": "p", "extra": {"application/x-own": 1}, "is_main_result": False}
        self.assertEqual(results[6], own)

    def test_numbers_that_json_does_not_have_do_not_break_the_stream(self):
        code = "from IPython.display import display; display({'application/json': {'a': float('nan')}}, raw=True)"
        self.assertIn(of("result", execute(code))[0]["json"]["a"], (None, "nan"))

    def test_output_comes_while_the_cell_runs(self):
        context = create()
        name = f"/tmp/warren-code-test-{context['id']}"
        code = f"import os, time; print('first', flush=True)\nwhile not os.path.exists({name!r}): time.sleep(0.01)"
        asked = Asked("POST", "/execute", {"code": code, "context_id": context["id"]})
        try:
            while asked.event()["type"] != "stdout":
                pass
        finally:
            open(name, "w").close()
        self.assertEqual(asked.events()[-1]["type"], "end_of_execution")
        os.unlink(name)

    def test_much_output_arrives_whole(self):
        events = execute("for i in range(20000): print(i, flush=i % 7 == 0)")
        self.assertEqual(printed(events), "".join(f"{i}\n" for i in range(20000)))

    def test_there_is_no_input_to_wait_for(self):
        self.assertEqual(of("error", execute("input()"))[0]["name"], "StdinNotImplementedError")


class Environment(Test):
    def test_variables_last_for_one_execution(self):
        for language, read in (("python", "import os; os.environ.get('K', '-')"), ("javascript", "process.env.K ?? '-'")):
            with self.subTest(language):
                context = create(language=language)["id"]
                value = "it's \"$x\" \u00fc\n2"
                env = {"K": value}
                self.assertEqual(of("result", execute(f"[{read}][0]" if language == "javascript" else read, context_id=context))[0]["text"], "-")
                told = of("result", execute(read if language == "javascript" else read + " == " + repr(value), context_id=context, env_vars=env))
                self.assertEqual(told[0]["text"], value if language == "javascript" else "True")
                self.assertEqual(of("result", execute(read, context_id=context))[0]["text"], "-")

    def test_a_variable_of_a_shell_gets_its_value_back(self):
        context = create(language="bash")["id"]
        execute("export K=old", context_id=context)
        self.assertEqual(printed(execute("echo $K", context_id=context, env_vars={"K": "it's new"})), "it's new\n")
        self.assertEqual(printed(execute("echo $K", context_id=context)), "old\n")

    def test_variables_go_back_after_an_error_too(self):
        execute("import os; 1/0", env_vars={"GONE": "1"})
        self.assertEqual(of("result", execute("os.environ.get('GONE', '-')"))[0]["text"], "-")

    def test_a_name_that_is_none_is_refused(self):
        for env in ({"a=b": "1"}, {"": "1"}, {"A": 1}, ["A"]):
            self.assertEqual(Asked("POST", "/execute", {"code": "1", "env_vars": env}).status, 400)


class Contexts(Test):
    def test_python_and_javascript_are_there_from_the_start(self):
        self.assertEqual([context["language"] for context in Asked("GET", "/contexts").json()][:2], ["python", "javascript"])

    def test_a_context_has_its_directory_and_is_listed_last(self):
        made = create(cwd="/usr", language="py")
        self.assertEqual((made["cwd"], made["language"]), ("/usr", "python"))
        self.assertEqual(Asked("GET", "/contexts").json()[-1], made)
        self.assertEqual(of("result", execute("import os; os.getcwd()", context_id=made["id"]))[0]["text"], "/usr")
        self.assertEqual(Asked("DELETE", f"/contexts/{made['id']}").status, 200)
        self.assertNotIn(made, Asked("GET", "/contexts").json())
        again = Asked("DELETE", f"/contexts/{made['id']}")
        self.assertEqual((again.status, again.text()), (404, f"Context {made['id']} not found"))

    def test_what_cannot_be_is_refused(self):
        execute = lambda **fields: Asked("POST", "/execute", fields)
        both = execute(code="1", language="python", context_id="x")
        self.assertEqual(both.status, 400)
        unknown = execute(code="1", context_id="nobody")
        self.assertEqual((unknown.status, unknown.text()), (404, "Context nobody not found"))
        self.assertEqual(execute(code="1", language="klingon").status, 400)
        self.assertEqual(execute(language="python").status, 400)
        nowhere = Asked("POST", "/contexts", {"cwd": "/not/there"})
        self.assertEqual((nowhere.status, nowhere.response.getheader("x-warren-field")), (400, "cwd"))
        self.assertEqual(nowhere.text(), "cwd: /not/there is not a directory")
        self.assertEqual(Asked("POST", "/contexts/nobody/restart").status, 404)
        self.assertEqual(Asked("GET", "/execute").status, 405)
        self.assertEqual(Asked("GET", "/nowhere").status, 404)
        self.assertEqual(execute(code="1", context_id=None, language=None, env_vars=None).status, 200)
        self.assertEqual(Asked("GET", "/health").status, 200)

    def test_executions_of_one_context_take_turns(self):
        context = create()["id"]
        code = "n = globals().get('n', 0); m = n; import time; time.sleep(0.01); n = m + 1"
        threads = [threading.Thread(target=execute, args=(code,), kwargs={"context_id": context}) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(of("result", execute("n", context_id=context))[0]["text"], "8")

    def test_a_restart_forgets_and_ends_what_runs(self):
        for language, sets, gets in (("python", "v = 1", "v"), ("javascript", "globalThis.v = 1", "v"), ("bash", "v=1", "[ -n \"$v\" ]")):
            with self.subTest(language):
                context = create(language=language)["id"]
                execute(sets, context_id=context)
                endless = {"python": "print(1, flush=True)\nwhile True: pass", "javascript": "console.log(1); while (true) {}", "bash": "echo 1; sleep 1000"}
                asked = Asked("POST", "/execute", {"code": endless[language], "context_id": context})
                while asked.event()["type"] != "stdout":
                    pass
                self.assertEqual(Asked("POST", f"/contexts/{context}/restart").status, 200)
                self.assertEqual(asked.events()[-1]["type"], "end_of_execution")
                self.assertEqual(len(of("error", execute(gets, context_id=context))), 1)

    def test_a_kernel_that_dies_is_told_and_replaced(self):
        ends = {"python": "import os; os.kill(os.getpid(), 9)", "javascript": "process.exit(3)", "bash": "exit 3"}
        for language, code in ends.items():
            with self.subTest(language):
                context = create(language=language)["id"]
                self.assertEqual(of("error", execute(code, context_id=context))[0]["name"], "KernelEnded")
                one = {"python": "print(1)", "javascript": "console.log(1)", "bash": "echo 1"}
                self.assertEqual(printed(execute(one[language], context_id=context)), "1\n")


class Interrupts(Test):
    ENDLESS = {
        "python": "print('on', flush=True)\nimport time\nwhile True: time.sleep(1)",
        "javascript": "console.log('on'); while (true) {}",
        "bash": "echo on; while :; do sleep 1; done; echo never",
    }
    AFTER = {"python": "print(kept)", "javascript": "console.log(kept)", "bash": "echo $kept"}
    KEPT = {"python": "kept = 7", "javascript": "const kept = 7", "bash": "kept=7"}

    def begun(self, language, **fields):
        context = create(language=language)["id"]
        execute(self.KEPT[language], context_id=context)
        asked = Asked("POST", "/execute", {"code": self.ENDLESS[language], "context_id": context, **fields})
        while asked.event()["type"] != "stdout":
            pass
        return context, asked

    def test_a_client_that_hangs_up_interrupts_its_cell(self):
        for language in self.ENDLESS:
            with self.subTest(language):
                context, asked = self.begun(language)
                asked.hang_up()
                self.assertEqual(printed(execute(self.AFTER[language], context_id=context)), "7\n")

    def test_variables_go_back_when_a_client_hangs_up(self):
        context, asked = self.begun("python", env_vars={"GONE": "1"})
        asked.hang_up()
        told = execute("import os; os.environ.get('GONE', '-')", context_id=context)
        self.assertEqual(of("result", told)[0]["text"], "-")

    def test_a_cell_that_is_interrupted_says_so(self):
        for language in self.ENDLESS:
            with self.subTest(language):
                context, asked = self.begun(language)
                self.assertEqual(Asked("POST", f"/contexts/{context}/interrupt").status, 200)
                events = asked.events()
                names = {"python": "KeyboardInterrupt", "javascript": None, "bash": "ExitStatus"}
                (error,) = of("error", events)
                self.assertIn(error["name"], (names[language], "Interrupted", "Error"))
                self.assertNotIn("never", printed(events))
                self.assertEqual(printed(execute(self.AFTER[language], context_id=context)), "7\n")

    def test_a_promise_that_is_never_kept_can_be_left(self):
        context = create(language="js")["id"]
        asked = Asked("POST", "/execute", {"code": "console.log('on'); await new Promise(() => {})", "context_id": context})
        while asked.event()["type"] != "stdout":
            pass
        asked.hang_up()
        self.assertEqual(of("result", execute("1 + 1", context_id=context))[0]["text"], "2")

    def test_a_cell_whose_time_is_over_is_interrupted(self):
        for language in self.ENDLESS:
            with self.subTest(language):
                events = Asked("POST", "/execute", {"code": self.ENDLESS[language], "language": language, "timeout_s": 0.5}).events()
                self.assertEqual(events[-1], {"type": "end_of_execution", "timed_out": True})
                self.assertEqual(len(of("error", events)), 1)

    def test_an_execution_that_waits_is_dropped_with_its_client(self):
        context, asked = self.begun("python")
        waiting = Asked("POST", "/execute", {"code": "kept = 8", "context_id": context})
        waiting.hang_up()
        asked.hang_up()
        self.assertEqual(printed(execute("print(kept)", context_id=context)), "7\n")


class JavaScript(Test):
    def value(self, code, context):
        return of("result", execute(code, context_id=context))[0]["text"]

    def test_declarations_stay_and_may_be_made_again(self):
        context = create(language="js")["id"]
        self.assertEqual(self.value("const add = (x, y) => x + y; add(1, 2)", context), "3")
        self.assertEqual(self.value("const add = (x, y) => x * y; add(3, 4)", context), "12")
        self.assertEqual(self.value("let p = await Promise.resolve('top'); p", context), "top")

    def test_modules_can_be_imported_in_every_way(self):
        context = create(language="js")["id"]
        code = "import { readFileSync, existsSync as there } from 'fs';\nimport os, * as all from \"node:os\"\nimport 'path'\n"
        code += "[typeof readFileSync, typeof there, typeof os.cpus, typeof all.cpus, typeof (await import('fs')).statSync, 'import(x)'].join()"
        self.assertEqual(self.value(code, context), "function,function,function,function,function,import(x)")
        self.assertEqual(self.value("require('path').join('a', 'b')", context), "a/b")

    def test_values_are_shown_and_told_as_data(self):
        (result,) = of("result", execute("({ a: [1, 2] })", language="js"))
        self.assertEqual((result["text"], result["json"]), ("{ a: [ 1, 2 ] }", {"a": [1, 2]}))
        self.assertEqual(of("result", execute("undefined", language="js")), [])
        (error,) = of("error", execute("null.x", language="js"))
        self.assertEqual(error["name"], "TypeError")
        self.assertNotIn("node:internal", error["traceback"])
        (error,) = of("error", execute("let = 3 4", language="js"))
        self.assertEqual(error["name"], "SyntaxError")

    def test_what_fails_later_does_not_end_the_kernel(self):
        context = create(language="js")["id"]
        execute("globalThis.v = 5; setTimeout(() => { throw new Error('late') }, 1); Promise.reject(new Error('lost'))", context_id=context)
        self.assertEqual(self.value("await new Promise((done) => setTimeout(done, 50)); v", context), "5")


class Shell(Test):
    def test_a_shell_keeps_its_directory_and_variables(self):
        context = create(language="bash")["id"]
        execute("cd /usr; X=5; f() { echo \"f$1\"; }", context_id=context)
        self.assertEqual(printed(execute("pwd; f $X; echo err >&2", context_id=context)), "/usr\nf5\n")
        events = execute("echo 'a!b'; ls /not/there", context_id=context)
        self.assertEqual((printed(events), of("error", events)[0]["value"]), ("a!b\n", "2"))
        self.assertIn("/not/there", printed(events, "stderr"))

    def test_a_cell_of_a_shell_has_no_input(self):
        self.assertEqual(printed(execute("cat; echo done", language="bash")), "done\n")


class Connections(Test):
    def test_one_connection_serves_many_requests(self):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=PATIENCE)
        for _ in range(3):
            connection.request("POST", "/execute", json.dumps({"code": "1"}))
            self.assertIn(b"end_of_execution", connection.getresponse().read())
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b"OK")
            connection.request("POST", "/contexts/nobody/restart")
            self.assertEqual(connection.getresponse().read(), b"Context nobody not found")
            connection.request("POST", "/execute", iter([b'{"code"', b': "2"}']), encode_chunked=True, headers={"transfer-encoding": "chunked"})
            self.assertIn(b'"text": "2"', connection.getresponse().read())
        connection.close()

    def test_what_is_no_request_is_refused(self):
        for text in (b"nonsense\r\n\r\n", b"POST /execute HTTP/1.1\r\ncontent-length: -1\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"x" * 70000 + b"\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", PORT), timeout=PATIENCE) as raw:
                raw.sendall(text)
                self.assertRegex(raw.recv(100), rb"^HTTP/1.1 4\d\d")
        for body in ("[1]", "{", '{"code": 1}', '{"code": "1", "language": 5}', '{"code": "1", "timeout_s": -1}'):
            connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=PATIENCE)
            connection.request("POST", "/execute", body)
            self.assertEqual(connection.getresponse().status, 400, body)
            connection.close()


if __name__ == "__main__":
    unittest.main(warnings="ignore")
