"""Pages on a made-up Internet, and addresses behind it at which nobody may ever arrive.

Arguments: a directory. `contacts` in it gets a line for each request, `ready` is made when all answer.
"""

import http.server
import pathlib
import sys
import threading

PLACE = pathlib.Path(sys.argv[1])
WEB = "198.51.100.10"
TRAPS = ["10.7.7.7", "169.254.169.254", "100.64.7.7", "192.168.7.7", "172.16.7.7"]

PAGES = {
    "/": """<title>Start</title><h1>A page</h1>
        <label>Name <input id=name></label><button onclick="document.title='Hello '+document.getElementById('name').value">Greet</button>
        <button onclick="document.title=confirm('Sure?')?'yes':'no'">Ask</button>
        <a href=/file.txt download=file.txt>Get it</a> <a href=/second>On</a>
        <p>""" + "A sentence of the page. " * 400,
    "/second": "<title>Second</title><h1>Another page</h1>",
    "/traps": "<title>trying</title><script>(async () => { const got = [];" + "".join(
        f"try {{ await fetch('http://{trap}/', {{mode: 'no-cors', signal: AbortSignal.timeout(3000)}}); got.push('{trap}') }} catch {{}}"
        for trap in TRAPS
    ) + "document.title = 'reached: ' + got.join(' ') })()</script>",
    # Each animation frame is another picture.
    "/moving": """<title>Moving</title><body style="margin:0"><canvas id=c width=1280 height=720></canvas><script>
        const pen = document.getElementById('c').getContext('2d'); let n = 0;
        (function draw() { pen.fillStyle = `hsl(${n % 360} 60% 60%)`; pen.fillRect(0, 0, 1280, 720);
        pen.fillStyle = 'black'; pen.font = '80px sans-serif'; pen.fillText(String(n++), 100, 300); requestAnimationFrame(draw) })()</script>""",
}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with lock:
            contacts.write(f"{self.server.server_address[0]} {self.path}\n")
        if self.path == "/file.txt":
            return self.answer("text/plain", "downloaded\n")
        page = PAGES.get(self.path)
        self.answer("text/html", page or "none", 200 if page else 404)

    def answer(self, kind, text, status=200):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


lock = threading.Lock()
contacts = open(PLACE / "contacts", "a", buffering=1)
for address in [WEB, *TRAPS]:
    server = http.server.ThreadingHTTPServer((address, 80), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
(PLACE / "ready").touch()
threading.Event().wait()
