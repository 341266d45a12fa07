"""Templates that are built from steps."""

import e2b
import pytest
from kit import done, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def builder(kit):
    return e2b.AsyncTemplate if kit.is_async else e2b.Template


async def test_a_template_is_built_and_used(kit, builder, mark, tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.txt").write_text("from the context")
    name, logs = f"built-{mark}", []
    steps = (
        builder(file_context_path=tmp_path)
        .from_template("base")
        .copy("app", "/opt/app")
        .run_cmd("echo made > /home/user/made.txt")
        .set_envs({"STEP": "three"})
        .set_workdir("/opt")
    )
    built = await done(builder.build(steps, name, on_build_logs=logs.append))
    assert built.template_id and any("made" in entry.message for entry in logs)
    assert await done(builder.exists(name)) is True
    assert await done(builder.exists(name + "-not")) is False
    sandbox = await kit.make(template=name)
    said = await done(sandbox.commands.run("cat /opt/app/main.txt ~/made.txt; echo; echo $STEP; pwd"))
    assert said.stdout.split() == ["from", "the", "context", "made", "three", "/opt"] or said.stdout == (
        "from the contextmade\n\nthree\n/opt\n"
    )


async def test_a_service_of_a_template_is_there(kit, builder, mark):
    name = f"served-{mark}"
    steps = (
        builder()
        .from_template("base")
        .run_cmd("echo hello > index.html")
        .set_start_cmd("python3 -m http.server 8124 --directory /home/user", e2b.wait_for_port(8124))
    )
    await done(builder.build(steps, name))
    sandbox = await kit.make(template=name)

    async def answers():
        told = await done(sandbox.commands.run("curl -s localhost:8124/index.html || true"))
        return told.stdout == "hello\n"

    await until(answers)


async def test_a_step_that_fails_is_named(kit, builder, mark):
    for command, user, word in (("exit 3", None, "exit 3"), ("true", "root123", "invalid username: 'root123'")):
        with pytest.raises(e2b.BuildException) as told:
            steps = builder().from_template("base").run_cmd(command, user=user)
            await done(builder.build(steps, f"failed-{mark}"))
        assert word in str(told.value)


async def test_tags(kit, builder, mark):
    name = f"tagged-{mark}"
    await done(builder.build(builder().from_template("base").run_cmd("echo 1 > v"), f"{name}:one"))
    await done(builder.assign_tags(f"{name}:one", ["two", "three"]))
    tags = {tag.tag for tag in await done(builder.get_tags(name))}
    assert {"one", "two", "three"} <= tags
    await done(builder.remove_tags(name, ["two"]))
    assert "two" not in {tag.tag for tag in await done(builder.get_tags(name))}
    sandbox = await kit.make(template=f"{name}:three")
    assert await done(sandbox.files.read("v")) == "1\n"
