"""Serve the page of the runs in a folder: ``python -m burnpy.train.board runs/ [--port 6007]``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from burnpy.backend.errors import path_shown
from burnpy.train.board.page import figures, page, runs_in

HOST = "127.0.0.1"


def server_of(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the page, which only this machine can reach; port 0 takes a free one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer with the page, or with its changing parts."""
            paths = {"/": page, "/runs": figures}
            if self.path not in paths:
                self.send_error(404)
                return
            body = paths[self.path](runs_in(folder)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing of requests."""

    return ThreadingHTTPServer((HOST, port), Handler)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m burnpy.train.board", description="Show training runs in a browser."
    )
    parser.add_argument("folder", type=Path, help="the folder with the logs that Jsonl wrote")
    parser.add_argument("--port", type=int, default=6007)
    options = parser.parse_args(arguments)
    if not os.path.isdir(options.folder):  # False, too, of a name that is too long
        sys.exit(f"there is no folder {path_shown(options.folder)}; give the one with the logs that Jsonl writes")
    try:
        server = server_of(options.folder, options.port)
    except OSError as error:
        sys.exit(f"port {options.port} cannot be used ({error.strerror}); choose another with --port")
    with server:
        sys.stdout.write(f"the runs in {options.folder} are on http://{HOST}:{server.server_port}/ until Ctrl-C\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
