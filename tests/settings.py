"""The product's settings, with a database, Redis number and collections of this test process's own.

`python -m tests.servers` starts the servers and says where they are through ZHIFU_TEST_*.
"""

import os
import tempfile

_worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
_number = int(_worker.removeprefix("gw"))

_missing = [name for name in ("DATABASE_URL", "REDIS_URL", "MILVUS_URL") if f"ZHIFU_TEST_{name}" not in os.environ]
if _missing:
    raise SystemExit(f"No test servers ({', '.join(_missing)}): run `make test`, or `make test ARGS=tests/...`.")

os.environ["ZHIFU_ENV_FILE"] = os.devnull
os.environ["ZHIFU_DATABASE_URL"] = os.environ["ZHIFU_TEST_DATABASE_URL"]
os.environ["ZHIFU_REDIS_URL"] = f"{os.environ['ZHIFU_TEST_REDIS_URL'].rstrip('/')}/{_number}"
os.environ["ZHIFU_BROKER_URL"] = os.environ.get("ZHIFU_TEST_BROKER_URL", "memory://")
os.environ["ZHIFU_MILVUS_URL"] = os.environ["ZHIFU_TEST_MILVUS_URL"]
# Set, not defaulted: pytest's workers inherit what the process that starts them has set for itself.
os.environ["ZHIFU_MILVUS_PREFIX"] = f"t{_number}_"
os.environ["ZHIFU_VAR_DIR"] = os.environ.get("ZHIFU_TEST_VAR_DIR") or os.path.join(
    tempfile.gettempdir(), f"zhifu-tests-{os.getuid()}-{_worker}"
)
for _secret in ("SECRET_KEY", "CUSTOMER_TOKEN_KEY", "STAFF_TOKEN_KEY", "REFERENCE_KEY"):
    os.environ.setdefault(f"ZHIFU_{_secret}", f"only-for-tests-{_secret.lower()}-".ljust(64, "x"))
for _name in [name for name in os.environ if name.startswith(("OPENAI_", "LANGSMITH_", "LANGCHAIN_"))]:
    del os.environ[_name]

from zhifu.settings import *  # noqa: E402, F403  # after the environment is set
from zhifu.settings import ENCODERS as _ENCODERS  # noqa: E402

# Character bigrams into 64 dimensions: fast, no model, similar texts are close. The real one is tested by contract.
ENCODER = os.environ.get("ZHIFU_ENCODER", "hashing")
ENCODERS = {
    **_ENCODERS,
    "hashing": "tests.fakes.HashingEncoder",
    "hashing_in_model_time": "benchmarks.encoding.InModelTime",
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
LOGGING_CONFIG = None
