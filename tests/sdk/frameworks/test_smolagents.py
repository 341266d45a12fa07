"""A smolagents agent whose code runs in a sandbox. The model is a script."""

from smolagents import ChatMessage, CodeAgent, MessageRole, Model


class Script(Model):
    """Says what it was given to say."""

    def __init__(self, said):
        super().__init__()
        self.said = iter(said)

    def generate(self, messages, **_):
        return ChatMessage(role=MessageRole.ASSISTANT, content=next(self.said))


def cell(code):
    return f"Thought: on we go.\n<code>\n{code}\n</code>"


def test_a_code_agent_runs_its_code_in_a_sandbox():
    said = [
        cell("import os\nnumbers = [n * n for n in range(10)]\nprint(os.path.exists('/home/user'), sum(numbers))"),
        cell("final_answer(max(numbers))"),
    ]
    with CodeAgent(tools=[], model=Script(said), executor_type="e2b", additional_authorized_imports=["os"]) as agent:
        assert agent.run("the greatest square below a hundred") == 81
        steps = [step.observations for step in agent.memory.steps if getattr(step, "observations", None)]
        assert any("True 285" in step for step in steps)
