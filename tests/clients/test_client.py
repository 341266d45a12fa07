"""A Python client generated from the OpenAPI document makes a sandbox, works in it and follows what
it does, against a server that the environment names."""

import json
import os
import unittest

from warren_client import AuthenticatedClient, models
from warren_client.api.sandboxes import create_sandbox, delete_sandbox, exec_, follow_process, start_process
from warren_client.api.sessions import acquire_session

EVENTS = {
    "started": models.ProcessEventStarted,
    "stdout": models.ProcessEventStdout,
    "stderr": models.ProcessEventStderr,
    "exited": models.ProcessEventExited,
}


def client():
    return AuthenticatedClient(base_url=os.environ["WARREN_URL"], token=os.environ["WARREN_API_KEY"], timeout=60)


def events(response):
    """The events of an answer, each as its model."""
    fields = {}
    for line in response.iter_lines():
        name, _, value = line.partition(":")
        if line:
            fields[name] = value.strip()
        elif "data" in fields:
            body = {"event": fields["event"], "data": json.loads(fields["data"])}
            yield EVENTS[fields["event"]].from_dict(body)
            fields = {}


class Typed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.warren = client()
        cls.sandbox = create_sandbox.sync(client=cls.warren, body=models.CreateSandbox())
        assert isinstance(cls.sandbox, models.Sandbox), cls.sandbox

    @classmethod
    def tearDownClass(cls):
        delete_sandbox.sync_detailed(cls.sandbox.sandbox_id, client=cls.warren)

    def test_a_command_is_run_to_its_end(self):
        body = models.Exec(command=["sh", "-c", "echo out; exit 3"])
        done = exec_.sync(self.sandbox.sandbox_id, client=self.warren, body=body)
        self.assertEqual((done.stdout, done.exit_code, done.cause), ("out\n", 3, models.ExitCause.EXITED))

    def test_a_command_is_followed_event_by_event(self):
        body = models.Exec(command="for i in 1 2 3; do echo $i; sleep 0.1; done")
        words = exec_._get_kwargs(self.sandbox.sandbox_id, body=body)
        words["headers"]["Accept"] = "text/event-stream"
        with self.warren.get_httpx_client().stream(**words) as response:
            seen = list(events(response))
        self.assertIsInstance(seen[0], models.ProcessEventStarted)
        written = "".join(one.data.data for one in seen if isinstance(one, models.ProcessEventStdout))
        self.assertEqual(written, "1\n2\n3\n")
        self.assertEqual(seen[-1].data.exit_code, 0)

    def test_output_that_has_ended_is_read_as_a_whole(self):
        body = models.StartProcess(command="echo once")
        process = start_process.sync(self.sandbox.sandbox_id, client=self.warren, body=body)
        text = follow_process.sync(self.sandbox.sandbox_id, str(process.process_id), client=self.warren)
        self.assertIn("once", text)
        self.assertIn("event: exited", text)

    def test_a_problem_has_a_code_and_the_field_that_is_wrong(self):
        problem = create_sandbox.sync(client=self.warren, body=models.CreateSandbox(memory_mib=1))
        self.assertIsInstance(problem, models.Problem)
        self.assertEqual((problem.code, problem.field), ("invalid_value", "memory_mib"))

    def test_a_session_needs_only_the_name_of_its_client(self):
        wanted = models.AcquireSession(client="typed", preferred_sandbox_id=self.sandbox.sandbox_id)
        session = acquire_session.sync(client=self.warren, body=wanted)
        self.assertEqual(session.sandbox_id, self.sandbox.sandbox_id)


if __name__ == "__main__":
    unittest.main()
