"""What people do with langchain-openai, against a server whose address is the first argument."""

import sys
from importlib.metadata import version

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

base = sys.argv[1]
llm = ChatOpenAI(base_url=f"{base}/v1", api_key="key", model="any", temperature=0, max_tokens=8, max_retries=0)
talk = [SystemMessage("Be brief."), HumanMessage("Hello")]

whole = llm.invoke(talk)
assert whole.usage_metadata["output_tokens"] == 8, whole
chunks = list(llm.stream(talk, stream_usage=True))
text = "".join(chunk.text for chunk in chunks)
assert text == whole.text != "", (text, whole)
assert sum(chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata) == 8, chunks
assert len(llm.batch([talk, talk, talk])) == 3


class Paint(BaseModel):
    """A small schema."""

    wet: bool


assert isinstance(llm.model_copy(update={"max_tokens": 200}).with_structured_output(Paint).invoke(talk), Paint)


@tool
def now(hour: bool) -> str:
    """The time."""
    return "noon"


called = llm.model_copy(update={"max_tokens": 200}).bind_tools([now], tool_choice="now", strict=True).invoke(talk)
assert called.tool_calls[0]["name"] == "now" and isinstance(called.tool_calls[0]["args"]["hour"], bool), called
after = llm.bind_tools([now]).invoke([*talk, AIMessage("", tool_calls=called.tool_calls),
                                      ToolMessage("noon", tool_call_id=called.tool_calls[0]["id"])])
assert after.usage_metadata["input_tokens"] > whole.usage_metadata["input_tokens"], after
responses = ChatOpenAI(base_url=f"{base}/v1", api_key="key", model="any", max_tokens=8, use_responses_api=True)
assert responses.invoke(talk).usage_metadata["output_tokens"] == 8
print(f"langchain-openai {version('langchain-openai')}: ok; {text!r}")
