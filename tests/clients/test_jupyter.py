"""A real Jupyter server as a session: started by the words of the default kind, reached through the proxy, a kernel played over
its WebSocket."""

import json
import re

from clientvenv import python_of
from livesessions import enter, live_sessions, queue, sessions

from rest.interactive.kinds import DEFAULT_KINDS

EXECUTE = {
    "header": {"msg_id": "m1", "username": "", "session": "s1", "msg_type": "execute_request", "version": "5.3", "date": ""},
    "parent_header": {}, "metadata": {}, "channel": "shell", "buffers": [],
    "content": {"code": "print('answer', 6 * 7)", "silent": False, "store_history": False, "user_expressions": {},
                "allow_stdin": False, "stop_on_error": True},
}  # fmt: skip


def test_a_kernel_is_played_through_the_proxy() -> None:
    """As root where root runs the tests: other users may not enter the folder of the environment."""
    program = python_of("jupyter").parent / "jupyter-server"
    (words,) = [one.command for one in DEFAULT_KINDS if one.kind == "jupyter"]
    kind = {"kind": "jupyter", "title": "Jupyter", "command": [str(program), *words[1:], "--allow-root"]}
    with live_sessions(more=[kind]) as rest:
        job = queue(rest, "jupyter", "")
        rest.cluster.wait(lambda: sessions(rest, "")[job]["is_ready"] is True, "the server listens")
        session = enter(rest, job, "")
        assert json.loads(session.get("api/status").text)["kernels"] == 0
        xsrf = next(
            one
            for one in session.get("tree").all("set-cookie") + session.get("api").all("set-cookie")
            if "_xsrf=" in one
        )
        found = re.match(r"_xsrf=([^;]+); .*Path=/session/\d+/", xsrf)
        assert found is not None, xsrf
        session.cookie += f"; _xsrf={found[1]}"
        refused = session.request("POST", "api/kernels", "Content-Length: 2", body=b"{}")
        assert refused.status == 403  # its own defence works, too
        made = session.request("POST", "api/kernels", "Content-Length: 0", f"X-XSRFToken: {found[1]}")
        assert made.status == 201, made.raw
        kernel = json.loads(made.text[made.text.index("{") : made.text.rindex("}") + 1])["id"]
        with session.websocket(f"api/kernels/{kernel}/channels") as wire:
            wire.send_text(json.dumps(EXECUTE))
            wire.until(b"answer 42")
        assert not session.websocket(f"api/kernels/{kernel}/channels", "http://evil.example").is_accepted
        rest.cluster.run("scancel", str(job)).ok()
        rest.cluster.wait_state(job, "CANCELLED")
