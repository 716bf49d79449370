"""A process that measures one engine: it reads orders and writes answers, a line of JSON each. The process reads its orders from its standard input."""
import json
import os
import subprocess
import sys


class Worker:
    def __init__(self, words, threads):
        """words: the script and its arguments."""
        self.process = subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        self.error = None

    def ask(self, **order):
        """The worker's answer; None from its first failure on, whose text is in self.error."""
        if self.error:
            return None
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline() or '{"error": "the process died"}')
        except (OSError, ValueError) as e:
            answer = {"error": f"the process died: {e}"}
        self.error = answer.get("error")
        return None if self.error else answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def answers():
    """The function that writes a worker's answers. Engines may print, so the standard output becomes the standard error for them."""
    file = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return lambda answer: print(json.dumps(answer), file=file, flush=True)
