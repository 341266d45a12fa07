"""An agent of OpenAI's Agents package whose computer is a sandbox. The model is a script."""

import asyncio
import json

from agents import Agent, ModelResponse, RunConfig, Runner, Usage, set_tracing_disabled
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.models.interface import Model
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Shell
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


class Script(Model):
    """Calls what it was given to call, then repeats the last answer."""

    def __init__(self, calls):
        self.calls = list(enumerate(calls))

    async def get_response(self, system_instructions, input, *rest, **named):
        if self.calls:
            number, arguments = self.calls.pop(0)
            item = ResponseFunctionToolCall(
                type="function_call", name="exec_command", call_id=f"call-{number}", arguments=json.dumps(arguments)
            )
        else:
            last = [entry for entry in input if entry.get("type") == "function_call_output"][-1]
            text = ResponseOutputText(type="output_text", text=str(last["output"]), annotations=[])
            item = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


def test_a_sandbox_agent_runs_commands_in_a_sandbox():
    async def run(kind):
        agent = SandboxAgent(
            name="worker",
            instructions="work",
            model=Script([{"cmd": "echo $((6 * 7)) > answer.txt"}, {"cmd": "cat answer.txt; id -un"}]),
            capabilities=[Shell()],
        )
        options = E2BSandboxClientOptions(sandbox_type=kind, timeout=300)
        sandbox = SandboxRunConfig(client=E2BSandboxClient(), options=options, manifest=Manifest())
        return (await Runner.run(agent, "what is the answer?", run_config=RunConfig(sandbox=sandbox))).final_output

    for kind in ("e2b", "e2b_code_interpreter"):
        told = asyncio.run(run(kind))
        assert "42" in told and "user" in told
