#!/usr/bin/env python3
"""A Bridge in one file: enrolls, keeps its token valid, and replaces its key (docs/bridges.md).

Usage: bridge.py enroll | rotate | rotate-key | run | status
Environment: CHECK_BRIDGE_URL, CHECK_BRIDGE_PROJECT, CHECK_BRIDGE_CREDENTIAL_FILE, CHECK_BRIDGE_STATE (a folder)
Exit codes: 0 done, 1 refused (ask the operator), 75 try again later
Needs: python3-cryptography
"""

import base64, datetime, email.utils, fcntl, hashlib, json, os, random, sys, time, urllib.error, urllib.request, uuid

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FOLDER = os.environ["CHECK_BRIDGE_STATE"]
STATE = os.path.join(FOLDER, "state.json")


class Refused(Exception):
    """The service refused with this code."""

    def __init__(self, code, retry_after):
        super().__init__(code)
        self.code, self.retry_after = code, retry_after


class NoAnswer(Exception):
    """No answer, or none that a repetition would not change."""

    retry_after = 0


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def new_key():
    return b64(Ed25519PrivateKey.generate().private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()))


def pair(key):
    """The private key of the state, and the 32 bytes of its public half."""
    private = Ed25519PrivateKey.from_private_bytes(unb64(key))
    return private, private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def fingerprint(public):
    return "sha256:" + hashlib.sha256(public).hexdigest()


# The state: one document, replaced as a whole, so that no crash leaves a step half done.


def load():
    try:
        with open(STATE) as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def save(state):
    """Returns once the state would survive a power cut. Nothing is sent before that."""
    file = os.open(STATE + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(file, json.dumps(state).encode())
        os.fsync(file)
    finally:
        os.close(file)
    os.replace(STATE + ".new", STATE)
    folder = os.open(FOLDER, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def locked():
    """Two processes of one Bridge would end each other's rotations."""
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    file = open(os.path.join(FOLDER, "lock"), "a")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


# Requests.


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead the token to another host."""

    def redirect_request(self, *_):
        return None


opener = urllib.request.build_opener(NoRedirects)


# Seconds that the service's clock is ahead of this machine's, as far as a refused proof has shown.
ahead = 0


def dpop_proof(method, url, bearer, key):
    """Proves for one request that this Bridge holds its key: a copy of the token is worthless without it."""
    private, public = pair(key)
    header = {"typ": "dpop+jwt", "alg": "EdDSA", "jwk": {"kty": "OKP", "crv": "Ed25519", "x": b64(public)}}
    claims = {
        "jti": str(uuid.uuid4()),
        "htm": method,
        "htu": url,
        "iat": int(time.time() + ahead),
        "ath": b64(hashlib.sha256(bearer.encode()).digest()),
    }
    message = ".".join(b64(json.dumps(part).encode()) for part in (header, claims))
    return message + "." + b64(private.sign(message.encode()))


def ask(*request, **parts):
    """One request, or two if the first has shown that the clock of this machine is wrong."""
    try:
        return ask_once(*request, **parts)
    except Refused as error:
        if error.code != "bridge_proof_of_possession_invalid":
            raise
        return ask_once(*request, **parts)


def ask_once(method, path, bearer=None, key=None, body=None, proved_by=None):
    """Returns the answer and the service's clock when it answered. `proved_by`: another key than the one of the state."""
    global ahead
    headers = {"Content-Type": "application/json"} if body else {}
    if bearer:
        headers["Authorization"] = "Bearer " + bearer
    if key:
        headers["Idempotency-Key"] = key
    data = json.dumps(body).encode() if body else None
    url = os.environ["CHECK_BRIDGE_URL"] + "/bridge/v1" + path
    if not path.startswith("/enrollment/"):
        headers["DPoP"] = dpop_proof(method, url, bearer, proved_by or load()["key"])
    try:
        with opener.open(urllib.request.Request(url, data, headers, method=method), timeout=10) as answer:
            at = email.utils.parsedate_to_datetime(answer.headers["Date"]).timestamp()
            return json.load(answer), at
    except urllib.error.HTTPError as error:
        try:
            code = json.load(error)["error"]["code"]
        except Exception:
            raise NoAnswer(f"status {error.code}")
        if code == "bridge_proof_of_possession_invalid" and "Date" in error.headers:
            ahead = email.utils.parsedate_to_datetime(error.headers["Date"]).timestamp() - time.time()
        raise Refused(code, int(error.headers.get("Retry-After", 0)))
    except Exception as error:
        raise NoAnswer(str(error))


PASSING = {"bridge_persistence_error", "rate_limited"}


def is_passing(error):
    return isinstance(error, NoAnswer) or error.code in PASSING


def pause(error, attempt):
    """A random part of a pause that doubles, so that a fleet does not come back all at once."""
    time.sleep(random.random() * min(20, 0.2 * 2**attempt) + error.retry_after)


def send(*request, **parts):
    """Repeats the request exactly, with the same Idempotency-Key, until it has an answer."""
    for attempt in range(8):
        try:
            return ask(*request, **parts)
        except (NoAnswer, Refused) as error:
            if not is_passing(error) or attempt == 7:
                raise
            pause(error, attempt)


def lifetime(body, at):
    """Seconds from the answer to the expiry in it, both by the service's clock."""
    expires_at = datetime.datetime.fromisoformat(body["expires_at"].replace("Z", "+00:00"))
    return max(1, expires_at.timestamp() - at)


# Enrollment: challenge, proof.


def enroll():
    with open(os.environ["CHECK_BRIDGE_CREDENTIAL_FILE"]) as file:
        credential = file.read().strip()
    with locked():
        state = load()
        if "token" in state:
            return
        if "key" not in state:
            state["key"] = new_key()
        for _ in range(3):
            if "challenge_key" not in state:
                state |= {"challenge_key": f"enroll-{uuid.uuid4()}", "proof_key": f"proof-{uuid.uuid4()}"}
                save(state)
            try:
                return prove(state, credential)
            except Refused as error:
                if error.code not in ("enrollment_challenge_expired", "enrollment_challenge_not_found"):
                    raise
                # A new challenge needs new keys; the credential is still good.
                del state["challenge_key"]


def prove(state, credential):
    private, public = pair(state["key"])
    who = {"project_id": os.environ["CHECK_BRIDGE_PROJECT"], "bridge_id": "python-bridge"}
    challenge, _ = send(
        "POST",
        "/enrollment/challenges",
        bearer=credential,
        key=state["challenge_key"],
        body={
            **who,
            "device_id": "device-1",
            "display_name": "A Bridge in Python",
            "public_key_fingerprint": fingerprint(public),
        },
    )
    nonce = challenge["nonce_b64"]
    proof = {
        **who,
        "challenge_id": challenge["challenge_id"],
        "nonce_b64": nonce,
        "signature_b64": b64(private.sign(unb64(nonce))),
        "public_key_b64": b64(public),
    }
    body, at = send("POST", "/enrollment/proofs", key=state["proof_key"], body=proof)
    save({**state, "token": body["access_token"], "lifetime": lifetime(body, at)})


# Rotation: prepare, store, confirm.

ENDED = {
    "bridge_rotation_expired",
    "bridge_rotation_aborted",
    "bridge_rotation_not_found",
    "bridge_token_invalid",
    "bridge_token_revoked",
    "bridge_token_expired",
}


def finish(state):
    """Finishes the rotation in the state. Returns False if it ended without a new token."""
    rotation = state["rotation"]
    if "successor" not in rotation:
        try:
            body, _ = send("POST", "/tokens/rotate/prepare", bearer=state["token"], key=rotation["prepare_key"])
        except Refused as error:
            if error.code not in ("bridge_rotation_expired", "bridge_rotation_aborted"):
                raise
            return drop(state)
        rotation |= {
            "id": body["rotation_id"],
            "successor": body["successor_token"],
            "confirm_key": f"confirm-{uuid.uuid4()}",
        }
        # Once it is confirmed, only the successor is valid: it must be here before.
        save(state)
    try:
        body, at = send(
            "POST",
            "/tokens/rotate/confirm",
            bearer=rotation["successor"],
            key=rotation["confirm_key"],
            body={"rotation_id": rotation["id"]},
        )
    except Refused as error:
        if error.code in ENDED:
            return drop(state)
        if error.code != "bridge_rotation_confirmed":
            raise
        body, at = send("GET", "/tokens/self", bearer=rotation["successor"])
    state |= {"token": rotation["successor"], "lifetime": lifetime(body, at)}
    drop(state)
    return True


def drop(state):
    del state["rotation"]
    save(state)
    return False


def rotate(state):
    if "next" in state:
        finish_key(state)
    for _ in range(3):
        if "rotation" not in state:
            state["rotation"] = {"prepare_key": f"rotate-{uuid.uuid4()}"}
            save(state)
        if finish(state):
            return
    raise NoAnswer("the rotation ended three times without a new token")


# Key rotation: prepare, confirm. The old key counts until then, so both are kept.


def finish_key(state):
    """Finishes the key rotation in the state. Returns False if it ended without a new key."""
    (old, _), (new, public) = pair(state["key"]), pair(state["next"]["key"])
    prepare, confirm = state["next"]["prepare_key"], state["next"]["confirm_key"]
    try:
        announced = {"public_key_fingerprint": fingerprint(public)}
        body, _ = send("POST", "/keys/rotate/prepare", bearer=state["token"], key=prepare, body=announced)
        nonce = unb64(body["nonce_b64"])
        signed = {
            "key_rotation_id": body["key_rotation_id"],
            "nonce_b64": body["nonce_b64"],
            "public_key_b64": b64(public),
            "signature_b64": b64(new.sign(nonce)),
            "predecessor_signature_b64": b64(old.sign(nonce + public)),
        }
        send("POST", "/keys/rotate/confirm", bearer=state["token"], key=confirm, body=signed)
    except Refused as error:
        if error.code in ("bridge_key_rotation_expired", "bridge_key_rotation_aborted"):
            del state["next"]
            save(state)
            return False
        if error.code != "bridge_proof_of_possession_invalid":
            raise
        # The old key counts no more. If the service knows the new one, the confirm has arrived and lost its answer.
        send("GET", "/tokens/self", bearer=state["token"], proved_by=state["next"]["key"])
    state["key"] = state.pop("next")["key"]
    save(state)
    return True


def rotate_key(state):
    if "rotation" in state:
        finish(state)
    for _ in range(3):
        if "next" not in state:
            keys = {"prepare_key": f"prepare-key-{uuid.uuid4()}", "confirm_key": f"confirm-key-{uuid.uuid4()}"}
            state["next"] = {"key": new_key(), **keys}
            save(state)
        if finish_key(state):
            return
    raise NoAnswer("the key rotation ended three times without a new key")


def enrolled():
    state = load()
    if "token" not in state:
        sys.exit("The folder holds no token: enroll first.")
    return state


def run():
    """Rotates after 60 to 80 % of each token's life, counted by the service's clock, and replaces the key when the
    operator asks for it. Ends only if a person has to act."""
    with locked():
        attempt, share = 0, random.uniform(0.2, 0.4)
        while True:
            try:
                state = enrolled()
                if "next" in state:
                    finish_key(state)
                if "rotation" in state:
                    finish(state)
                body, at = ask("GET", "/tokens/self", bearer=state["token"])
                if body.get("key", {}).get("rotation_required"):
                    rotate_key(state)
                wait = lifetime(body, at) - share * state["lifetime"]
                time.sleep(max(0, min(wait, 3600)))
                if wait > 3600:
                    continue
                rotate(state)
                share = random.uniform(0.2, 0.4)
                print("Rotated", flush=True)
                attempt = 0
            except (NoAnswer, Refused) as error:
                if not is_passing(error) and not error.code.endswith("rotation_in_progress"):
                    raise
                print(f"Trying again: {error}", flush=True)
                pause(error, attempt)
                attempt += 1


def status():
    state = enrolled()
    try:
        body, _ = send("GET", "/tokens/self", bearer=state["token"])
    except Refused:
        if "next" not in state:
            raise
        body, _ = send("GET", "/tokens/self", bearer=state["token"], proved_by=state["next"]["key"])
    print(body["bridge_id"], "is enrolled until", body["expires_at"])


def now(replace):
    with locked():
        replace(enrolled())


commands = {
    "enroll": enroll,
    "rotate": lambda: now(rotate),
    "rotate-key": lambda: now(rotate_key),
    "run": run,
    "status": status,
}
try:
    commands[sys.argv[1]]()
except Refused as error:
    sys.exit(f"Refused: {error.code}")
except (NoAnswer, OSError) as error:
    print(f"Try again later: {error}", file=sys.stderr)
    sys.exit(75)
