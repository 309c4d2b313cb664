"""The programs of examples/ do what they say, on the bundled model.

    examples_test.py GLINT MODEL_DIR EMBED
"""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE / "oracle"), str(HERE / "server")]
import oracle_venv  # noqa: E402

oracle_venv.enter("openai==3.54.0")

from served import Served  # noqa: E402

EXAMPLES = HERE.parent / "examples"


def said(*command):
    run = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 0, f"{command}: exit {run.returncode}\n{run.stdout}{run.stderr}"
    return run.stdout


def main():
    glint, model, embed = sys.argv[1:]
    answers = said(embed, model, "What is 357 + 286?", "What is the capital of France?")
    assert "643" in answers and "Paris" in answers and "<|" not in answers, answers
    with Served([glint, "serve"], model) as server:
        answers = said(EXAMPLES / "chat.sh", server.url)
        assert "The capital of France is Paris." in answers, answers
        assert "data: [DONE]" in answers and '{\\"name\\": \\"Ada\\", \\"age\\": 7, \\"animal\\": \\"fox\\"}' in answers, answers
        answer = said(sys.executable, EXAMPLES / "openai_client.py", server.url)
        assert "The answer is 643." in answer, answer
        answer = said(sys.executable, EXAMPLES / "agent.py", server.url)
        assert "get_weather({'city': 'Paris'})" in answer and "It is sunny in Paris, with 21 degrees." in answer, answer


main()
