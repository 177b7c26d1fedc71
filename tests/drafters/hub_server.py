"""A stand-in for the hub: its real routes, on loopback, with faults. huggingface_hub talks to it through HF_ENDPOINT."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Repo:
    files: dict[str, bytes]
    sha: str = "c0ffee" + "0" * 34
    gated: bool = False
    private: bool = False
    card: dict = field(default_factory=dict)


@dataclass
class Hub:
    repos: dict[str, Repo] = field(default_factory=dict)
    token: str = "hf_secret_of_the_operator"
    bytes_sent: int = 0
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    cut_after: int = 0
    """Drop the connection after so many bytes of one answer, once."""
    delay_s: float = 0.0
    """Pause between pieces of 64 kB."""
    garbage: bytes = b""
    """Send this instead of file content."""
    status: int = 0
    """Answer every file request with this status."""
    url: str = ""


def lfs(name: str, content: bytes) -> bool:
    return name.endswith((".safetensors", ".bin", ".pt"))


def etag(name: str, content: bytes) -> str:
    if lfs(name, content):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *args) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def send(self, status: int, headers: dict[str, str], content: bytes = b"", *, body: bool = True) -> None:
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(key, value)
        self.end_headers()
        if not body:
            return
        for at in range(0, len(content), 65536):
            piece = content[at : at + 65536]
            if self.hub.cut_after and at + len(piece) > self.hub.cut_after:
                self.wfile.write(piece[: max(self.hub.cut_after - at, 0)])
                self.hub.cut_after = 0
                self.close_connection = True
                self.connection.close()
                return
            self.wfile.write(piece)
            self.hub.bytes_sent += len(piece)
            if self.hub.delay_s:
                time.sleep(self.hub.delay_s)

    def refuse(self, status: int, code: str, message: str) -> None:
        self.send(status, {"X-Error-Code": code, "X-Error-Message": message}, json.dumps({"error": message}).encode())

    def admitted(self, repo: Repo | None) -> bool:
        sent = self.headers.get("authorization", "")
        if repo is None or (repo.private and sent != f"Bearer {self.hub.token}"):
            self.refuse(404 if sent else 401, "RepoNotFound", "Repository not found")
        elif repo.gated and not sent:
            self.refuse(401, "GatedRepo", "Access to model is restricted. You must be authenticated")
        elif repo.gated:
            self.refuse(403, "GatedRepo", "Access to model is restricted and you are not in the authorized list")
        else:
            return True
        return False

    def answer(self, *, body: bool) -> None:
        self.hub.requests.append((self.command, self.path, self.headers.get("range", "")))
        path = self.path.split("?", 1)[0]
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self.info(found[1], found[2] or "main", body=body)
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.file(found[1], found[2], found[3], body=body)
        else:
            self.refuse(404, "", "no such route")

    def info(self, name: str, revision: str, *, body: bool) -> None:
        repo = self.hub.repos.get(name)
        if not self.admitted(repo):
            return
        assert repo is not None
        if revision not in {"main", repo.sha}:
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        siblings = []
        for file, content in repo.files.items():
            item: dict = {
                "rfilename": file,
                "size": len(content),
                "blobId": hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(),
            }
            if lfs(file, content):
                item["lfs"] = {"sha256": etag(file, content), "size": len(content), "pointerSize": 134}
            siblings.append(item)
        answer = {"id": name, "modelId": name, "sha": repo.sha, "siblings": siblings, "cardData": repo.card, "private": repo.private,
                  "gated": repo.gated, "tags": [], "downloads": 0}  # fmt: skip
        self.send(200, {"Content-Type": "application/json"}, json.dumps(answer).encode(), body=body)

    def file(self, name: str, revision: str, file: str, *, body: bool) -> None:
        repo = self.hub.repos.get(name)
        if not self.admitted(repo):
            return
        assert repo is not None
        if file not in repo.files:
            self.refuse(404, "EntryNotFound", "Entry not found")
            return
        if self.hub.status and body:
            self.refuse(self.hub.status, "", "trouble")
            return
        content = repo.files[file]
        headers = {"ETag": f'"{etag(file, content)}"', "X-Repo-Commit": repo.sha, "Accept-Ranges": "bytes"}
        if self.hub.garbage and body:
            content = self.hub.garbage
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if not wanted:
            self.send(200, headers, content, body=body)
            return
        start, stop = int(wanted[1]), int(wanted[2]) + 1 if wanted[2] else len(content)
        if start >= len(content):
            self.refuse(416, "", "Range not satisfiable")
            return
        piece = content[start:stop]
        headers["Content-Range"] = f"bytes {start}-{start + len(piece) - 1}/{len(content)}"
        self.send(206, headers, piece, body=body)


def serve(hub: Hub) -> ThreadingHTTPServer:
    """Start it on a free port; ``hub.url`` is its address."""
    handler = type("BoundHandler", (Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


if __name__ == "__main__":
    import sys
    from pathlib import Path

    root = Path(sys.argv[1])
    public = Hub()
    for folder in sorted(path for path in root.glob("*/*") if path.is_dir()):
        files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        public.repos["/".join(folder.parts[-2:])] = Repo(files)
    public.delay_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    serve(public)
    print(public.url, flush=True)
    threading.Event().wait()
