"""A client on the official Python SDK: `python acp_sdk_client.py PLAN COMMAND [ARGUMENT...]`.

PLAN is a JSON list of prompts, `{"text": ..., "while": a stop reason}`; one with `while` is given again as long as it
ends so, 10 times at most, as drivers do that go on by themselves. A permission is granted once the prompt that it was
asked in has ended, which is too late. Prints a JSON list: of each prompt what was shown of it, and its answer or error.
"""

import asyncio
import json
import os
import sys
from typing import Any

from acp.schema import AllowedOutcome, RequestPermissionResponse

import acp

MOST = 10


class Person(acp.Client):
    """Sees what the agent shows."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.turn_ended = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.shown.append(plain(update))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> RequestPermissionResponse:
        await self.turn_ended.wait()
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id))


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def prompted(agent: Any, person: Person, session_id: str, text: str) -> Any:
    person.shown, seen = [], {}
    person.turn_ended.clear()
    try:
        answer = await agent.prompt(session_id=session_id, prompt=[acp.text_block(text)])
        seen["answer"] = plain(answer)
    except acp.RequestError as error:
        seen["error"] = {"code": error.code, "message": str(error), "data": error.data}
    seen["shown"] = person.shown
    person.turn_ended.set()
    return seen


async def run(plan: list[Any], command: list[str]) -> list[Any]:
    person, seen = Person(), []  # pyright: ignore[reportAbstractUsage] -- it has no files and no terminals
    async with acp.spawn_agent_process(person, *command, env=os.environ) as (agent, _process):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await agent.new_session(cwd="/", mcp_servers=[])
        for step in plan:
            for _ in range(MOST):
                seen.append(await prompted(agent, person, session.session_id, step["text"]))
                if seen[-1].get("answer", {}).get("stopReason") != step.get("while", "never"):
                    break
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(json.loads(sys.argv[1]), sys.argv[2:]))))
