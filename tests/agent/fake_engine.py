"""An engine that speaks SGLang's log lines and routes in a fraction of a second, and misbehaves on demand.

``FAKE`` in its environment is a JSON object: see ``Options``.
"""

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

OPTIONS = {
    "start_s": 0.2,  # until the HTTP server listens
    "fail_drafter": "",  # a drafter with which the start dies
    "fail": "",  # out-of-memory: die at graph capture; port: as if the port were taken at the end
    "ignore_sigterm": False,
    "drain_s": 0.0,  # between SIGTERM and the end
    "exit_code": 0,  # -9: kill itself after a clean stop, as 0.5.17 does
    "children": 0,  # processes beside it
    "orphans": 0,  # processes in a session of their own that outlive it
    "first_token_s": 0.0,
    "silent_log": False,
}


def log(text):
    if not options.silent_log:
        print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}", flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def do_GET(self):
        if self.path.startswith(("/server_info", "/get_server_info")):
            self.answer(
                {
                    "version": "0.5.23",
                    "model_path": "model",
                    "speculative_algorithm": value("--speculative-algorithm") or None,
                    "speculative_draft_model_path": value("--speculative-draft-model-path"),
                    "speculative_num_steps": int(value("--speculative-num-steps") or 0) or None,
                }
            )
        else:
            self.answer({})

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(options.first_token_s)
        self.answer({"text": "x"})


def value(flag):
    return sys.argv[sys.argv.index(flag) + 1] if flag in sys.argv else ""


def spawn(count, **how):
    return [subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"], **how) for _ in range(count)]


def traceback(message):
    log("Scheduler hit an exception: Traceback (most recent call last):")
    print('  File "/site/sglang/srt/managers/scheduler.py", line 100, in run_scheduler_process')
    print("    scheduler = Scheduler()")
    print('  File "/site/sglang/srt/model_executor/cuda_graph_runner.py", line 10, in capture_one')
    print(message, flush=True)
    log("Received sigquit from a child process. It usually means the child failed.")


def main():
    stopping = []
    children = spawn(options.children)
    spawn(options.orphans, start_new_session=True)
    log(f"server_args=ServerArgs(model_path='model', port={value('--port')})")
    log("Load weight begin. avail mem=10.00 GB")
    time.sleep(options.start_s / 2)
    log("Load weight end. elapsed=0.10 s, type=Fake, avail mem=9.00 GB, mem usage=1.00 GB.")
    log("Capture cuda graph begin. This can take up to several minutes. avail mem=9.00 GB")
    if options.fail == "out-of-memory" or (
        options.fail_drafter and value("--speculative-draft-model-path") == options.fail_drafter
    ):
        traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
        for child in children:
            child.kill()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(options.start_s / 2)
    log("Capture cuda graph end. elapsed=0.10 s, mem usage=0.10 GB, avail mem=8.90 GB.")
    if options.fail == "port":
        log(
            f"ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', {value('--port')}): "
            "address already in use"
        )
        time.sleep(60)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(value("--port"))), Handler)
    server.daemon_threads = True

    def terminate(*_):
        log("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        if not options.ignore_sigterm:
            stopping.append(1)

    signal.signal(signal.SIGTERM, terminate)
    log("INFO:     Started server process [1]")
    log("The server is fired up and ready to roll!")
    server.timeout = 0.05
    end = None
    while end is None or time.monotonic() < end:
        server.handle_request()
        if stopping and end is None:
            log("Gracefully exiting... Remaining number of requests 2. Remaining requests remaining_rids=[].")
            end = time.monotonic() + options.drain_s
    for child in children:
        child.kill()
    if options.exit_code < 0:
        os.kill(os.getpid(), -options.exit_code)
    return options.exit_code


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    options = SimpleNamespace(**{**OPTIONS, **json.loads(os.environ.get("FAKE", "{}"))})
    sys.exit(main())
