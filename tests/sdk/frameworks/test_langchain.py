"""A LangChain deep agent whose computer is a sandbox. The model is a script."""

import e2b
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_e2b import E2BSandbox


class Script(GenericFakeChatModel):
    """Says what it was given to say, whatever tools there are."""

    def bind_tools(self, tools, **_):
        return self


def call(number, name, **arguments):
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": f"call-{number}"}])


def test_a_deep_agent_works_in_a_sandbox():
    sandbox = e2b.Sandbox.create(timeout=300)
    try:
        said = [
            call(1, "write_file", file_path="/home/user/sum.py", content="print(sum(range(101)))"),
            call(2, "execute", command="python3 /home/user/sum.py"),
            call(3, "edit_file", file_path="/home/user/sum.py", old_string="101", new_string="11"),
            call(4, "execute", command="python3 /home/user/sum.py"),
            call(5, "grep", pattern="sum", path="/home/user"),
            AIMessage(content="done"),
        ]
        agent = create_deep_agent(model=Script(messages=iter(said)), backend=E2BSandbox(sandbox=sandbox))
        told = agent.invoke({"messages": [("user", "add some numbers")]})["messages"]
        answers = {message.tool_call_id: message.text for message in told if message.type == "tool"}
        assert "5050" in answers["call-2"] and "55" in answers["call-4"]
        assert "sum.py" in answers["call-5"] and told[-1].text == "done"
        assert sandbox.files.read("/home/user/sum.py") == "print(sum(range(11)))"
    finally:
        sandbox.kill()
