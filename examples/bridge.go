// A Bridge in one file: enrolls, keeps its token valid, and replaces its key (docs/bridges.md).
//
// Usage: bridge enroll | rotate | rotate-key | run | status
// Environment: CHECK_BRIDGE_URL, CHECK_BRIDGE_PROJECT, CHECK_BRIDGE_CREDENTIAL_FILE, CHECK_BRIDGE_STATE (a folder)
// Exit codes: 0 done, 1 refused (ask the operator), 75 try again later
// Needs: Go 1.19 or newer, and nothing else. Linux or macOS.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	mathrand "math/rand"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var folder = os.Getenv("CHECK_BRIDGE_STATE")

// State is one document that is replaced as a whole, so that no crash leaves a step half done.
type State struct {
	Seed         []byte    `json:"seed,omitempty"`
	ChallengeKey string    `json:"challenge_key,omitempty"`
	ProofKey     string    `json:"proof_key,omitempty"`
	Token        string    `json:"token,omitempty"`
	Lifetime     float64   `json:"lifetime,omitempty"` // seconds
	Rotation     *Rotation `json:"rotation,omitempty"`
	Next         *NextKey  `json:"next,omitempty"`
}

// NextKey is the key that is to follow, of the key rotation under way.
type NextKey struct {
	Seed       []byte `json:"seed"`
	PrepareKey string `json:"prepare_key"`
	ConfirmKey string `json:"confirm_key"`
}

// Rotation is the one under way; without a successor it is not known to be prepared.
type Rotation struct {
	PrepareKey string `json:"prepare_key"`
	ID         string `json:"id,omitempty"`
	Successor  string `json:"successor,omitempty"`
	ConfirmKey string `json:"confirm_key,omitempty"`
}

func load() (*State, error) {
	state := &State{}
	content, err := os.ReadFile(filepath.Join(folder, "state.json"))
	if errors.Is(err, os.ErrNotExist) {
		return state, nil
	}
	if err != nil {
		return nil, err
	}
	return state, json.Unmarshal(content, state)
}

// save returns once the state would survive a power cut. Nothing is sent before that.
func save(state *State) error {
	content, err := json.Marshal(state)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, "state.json")
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	directory, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}

// lock keeps a second process of this Bridge out: the two would end each other's rotations. It ends with the process.
func lock() error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	locked = file
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
}

var locked *os.File

// Refused is a refusal of the service.
type Refused struct {
	Code       string
	RetryAfter time.Duration
}

func (refused Refused) Error() string { return "Refused: " + refused.Code }

// NoAnswer is no answer, or none of the service.
type NoAnswer struct{ Why string }

func (none NoAnswer) Error() string { return "Try again later: " + none.Why }

func codeOf(err error) string {
	refused := Refused{}
	errors.As(err, &refused)
	return refused.Code
}

// isPassing tells whether the same request may succeed later.
func isPassing(err error) bool {
	code := codeOf(err)
	return errors.As(err, &NoAnswer{}) || code == "bridge_persistence_error" || code == "rate_limited"
}

// pause waits for a random part of a time that doubles, so that a fleet does not come back all at once.
func pause(err error, attempt int) {
	refused := Refused{}
	errors.As(err, &refused)
	most := math.Min(20, 0.2*math.Pow(2, float64(attempt)))
	time.Sleep(time.Duration(mathrand.Float64()*most*float64(time.Second)) + refused.RetryAfter)
}

type Answer struct {
	ChallengeID    string    `json:"challenge_id"`
	Nonce          string    `json:"nonce_b64"`
	AccessToken    string    `json:"access_token"`
	RotationID     string    `json:"rotation_id"`
	SuccessorToken string    `json:"successor_token"`
	BridgeID       string    `json:"bridge_id"`
	ExpiresAt      time.Time `json:"expires_at"`
	KeyRotationID  string    `json:"key_rotation_id"`
	Key            struct {
		RotationRequired bool `json:"rotation_required"`
	} `json:"key"`
	at time.Time // the service's clock when it answered
}

// lifetime is the seconds from the answer to the expiry in it, both by the service's clock.
func (answer Answer) lifetime() float64 {
	return math.Max(1, answer.ExpiresAt.Sub(answer.at).Seconds())
}

type Request struct {
	method, path, bearer, key string
	body                      any
	seed                      []byte // proves the request, instead of the key in the state
}

func post(path, bearer, key string, body any) Request {
	return Request{method: "POST", path: path, bearer: bearer, key: key, body: body}
}

func self(bearer string, seed []byte) Request {
	return Request{method: "GET", path: "/tokens/self", bearer: bearer, seed: seed}
}

// A redirect could lead the token to another host.
var client = &http.Client{
	Timeout:       10 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ahead is how far the service's clock is ahead of this machine's, as far as a refused proof has shown.
var ahead time.Duration

// dpopProof proves for one request that this Bridge holds its key: a copy of the token is worthless without it.
func dpopProof(method, url, bearer string, seed []byte) (string, error) {
	if seed == nil {
		state, err := load()
		if err != nil {
			return "", err
		}
		seed = state.Seed
	}
	private := ed25519.NewKeyFromSeed(seed)
	encode := base64.RawURLEncoding.EncodeToString
	hash := sha256.Sum256([]byte(bearer))
	header, err := json.Marshal(map[string]any{
		"typ": "dpop+jwt",
		"alg": "EdDSA",
		"jwk": map[string]string{"kty": "OKP", "crv": "Ed25519", "x": encode(private.Public().(ed25519.PublicKey))},
	})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"jti": random("proof"),
		"htm": method,
		"htu": url,
		"iat": time.Now().Add(ahead).Unix(),
		"ath": encode(hash[:]),
	})
	message := encode(header) + "." + encode(claims)
	return message + "." + encode(ed25519.Sign(private, []byte(message))), err
}

// ask sends one request, or two if the first has shown that the clock of this machine is wrong.
func ask(asked Request) (Answer, error) {
	answer, err := askOnce(asked)
	if codeOf(err) == "bridge_proof_of_possession_invalid" {
		return askOnce(asked)
	}
	return answer, err
}

func askOnce(asked Request) (answer Answer, err error) {
	var body io.Reader
	if asked.body != nil {
		content, err := json.Marshal(asked.body)
		if err != nil {
			return answer, err
		}
		body = bytes.NewReader(content)
	}
	request, err := http.NewRequest(asked.method, os.Getenv("CHECK_BRIDGE_URL")+"/bridge/v1"+asked.path, body)
	if err != nil {
		return answer, err
	}
	if asked.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if asked.bearer != "" {
		request.Header.Set("Authorization", "Bearer "+asked.bearer)
	}
	if asked.key != "" {
		request.Header.Set("Idempotency-Key", asked.key)
	}
	if !strings.HasPrefix(asked.path, "/enrollment/") {
		proof, err := dpopProof(asked.method, request.URL.String(), asked.bearer, asked.seed)
		if err != nil {
			return answer, err
		}
		request.Header.Set("DPoP", proof)
	}
	response, err := client.Do(request)
	if err != nil {
		return answer, NoAnswer{err.Error()}
	}
	defer response.Body.Close()
	if response.StatusCode < 300 {
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			return answer, NoAnswer{err.Error()}
		}
		answer.at, err = http.ParseTime(response.Header.Get("Date"))
		return answer, err
	}
	var refusal struct{ Error struct{ Code string } }
	if json.NewDecoder(response.Body).Decode(&refusal) != nil || refusal.Error.Code == "" {
		return answer, NoAnswer{response.Status}
	}
	if at, err := http.ParseTime(response.Header.Get("Date")); err == nil &&
		refusal.Error.Code == "bridge_proof_of_possession_invalid" {
		ahead = time.Until(at)
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return answer, Refused{refusal.Error.Code, time.Duration(seconds) * time.Second}
}

// send repeats the request exactly, with the same Idempotency-Key, until it has an answer.
func send(asked Request) (answer Answer, err error) {
	for attempt := 0; attempt < 8; attempt++ {
		answer, err = ask(asked)
		if err == nil || !isPassing(err) {
			return answer, err
		}
		pause(err, attempt)
	}
	return answer, err
}

func randomBytes(count int) []byte {
	value := make([]byte, count)
	if _, err := rand.Read(value); err != nil {
		panic(err)
	}
	return value
}

func random(prefix string) string { return prefix + "-" + hex.EncodeToString(randomBytes(16)) }

func newSeed() []byte { return randomBytes(ed25519.SeedSize) }

func publicOf(private ed25519.PrivateKey) []byte { return []byte(private.Public().(ed25519.PublicKey)) }

func fingerprint(public []byte) string {
	hash := sha256.Sum256(public)
	return "sha256:" + hex.EncodeToString(hash[:])
}

// Enrollment: challenge, proof.

func enroll() error {
	content, err := os.ReadFile(os.Getenv("CHECK_BRIDGE_CREDENTIAL_FILE"))
	if err != nil {
		return err
	}
	if err := lock(); err != nil {
		return err
	}
	state, err := load()
	if err != nil || state.Token != "" {
		return err
	}
	if state.Seed == nil {
		state.Seed = newSeed()
	}
	for round := 0; ; round++ {
		if state.ChallengeKey == "" {
			state.ChallengeKey, state.ProofKey = random("enroll"), random("proof")
			if err := save(state); err != nil {
				return err
			}
		}
		err := prove(state, strings.TrimSpace(string(content)))
		code := codeOf(err)
		if round == 2 || (code != "enrollment_challenge_expired" && code != "enrollment_challenge_not_found") {
			return err
		}
		// A new challenge needs new keys; the credential is still good.
		state.ChallengeKey = ""
	}
}

func prove(state *State, credential string) error {
	private := ed25519.NewKeyFromSeed(state.Seed)
	public := publicOf(private)
	project, bridge := os.Getenv("CHECK_BRIDGE_PROJECT"), "go-bridge"
	opening := map[string]string{
		"project_id":             project,
		"bridge_id":              bridge,
		"device_id":              "device-1",
		"display_name":           "A Bridge in Go",
		"public_key_fingerprint": fingerprint(public),
	}
	challenge, err := send(post("/enrollment/challenges", credential, state.ChallengeKey, opening))
	if err != nil {
		return err
	}
	nonce, err := base64.RawURLEncoding.DecodeString(challenge.Nonce)
	if err != nil {
		return err
	}
	proved, err := send(post("/enrollment/proofs", "", state.ProofKey, map[string]string{
		"project_id":     project,
		"bridge_id":      bridge,
		"challenge_id":   challenge.ChallengeID,
		"nonce_b64":      challenge.Nonce,
		"signature_b64":  base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, nonce)),
		"public_key_b64": base64.RawURLEncoding.EncodeToString(public),
	}))
	if err != nil {
		return err
	}
	state.Token, state.Lifetime = proved.AccessToken, proved.lifetime()
	return save(state)
}

// Rotation: prepare, store, confirm.

// finish finishes the rotation in the state; false if it ended without a new token.
func finish(state *State) (bool, error) {
	rotation := state.Rotation
	if rotation.Successor == "" {
		prepared, err := send(post("/tokens/rotate/prepare", state.Token, rotation.PrepareKey, nil))
		if code := codeOf(err); code == "bridge_rotation_expired" || code == "bridge_rotation_aborted" {
			return false, drop(state)
		}
		if err != nil {
			return false, err
		}
		rotation.ID, rotation.Successor, rotation.ConfirmKey = prepared.RotationID, prepared.SuccessorToken, random("confirm")
		// Once it is confirmed, only the successor is valid: it must be here before.
		if err := save(state); err != nil {
			return false, err
		}
	}
	which := map[string]string{"rotation_id": rotation.ID}
	confirmed, err := send(post("/tokens/rotate/confirm", rotation.Successor, rotation.ConfirmKey, which))
	switch codeOf(err) {
	case "bridge_rotation_expired", "bridge_rotation_aborted", "bridge_rotation_not_found",
		"bridge_token_invalid", "bridge_token_revoked", "bridge_token_expired":
		return false, drop(state)
	case "bridge_rotation_confirmed":
		confirmed, err = send(self(rotation.Successor, nil))
	}
	if err != nil {
		return false, err
	}
	state.Token, state.Lifetime = rotation.Successor, confirmed.lifetime()
	return true, drop(state)
}

func drop(state *State) error {
	state.Rotation = nil
	return save(state)
}

func rotate(state *State) error {
	if state.Next != nil {
		if _, err := finishKey(state); err != nil {
			return err
		}
	}
	for round := 0; round < 3; round++ {
		if state.Rotation == nil {
			state.Rotation = &Rotation{PrepareKey: random("rotate")}
			if err := save(state); err != nil {
				return err
			}
		}
		if done, err := finish(state); done || err != nil {
			return err
		}
	}
	return NoAnswer{"the rotation ended three times without a new token"}
}

// Key rotation: prepare, confirm. The old key counts until then, so both are kept.

// finishKey finishes the key rotation in the state; false if it ended without a new key.
func finishKey(state *State) (bool, error) {
	err := confirmKey(state)
	switch codeOf(err) {
	case "bridge_key_rotation_expired", "bridge_key_rotation_aborted":
		state.Next = nil
		return false, save(state)
	case "bridge_proof_of_possession_invalid":
		// The old key counts no more. If the service knows the new one, the confirm has arrived and lost its answer.
		_, err = send(self(state.Token, state.Next.Seed))
	}
	if err != nil {
		return false, err
	}
	state.Seed, state.Next = state.Next.Seed, nil
	return true, save(state)
}

func confirmKey(state *State) error {
	next := state.Next
	oldKey, newKey := ed25519.NewKeyFromSeed(state.Seed), ed25519.NewKeyFromSeed(next.Seed)
	public := publicOf(newKey)
	announced := map[string]string{"public_key_fingerprint": fingerprint(public)}
	prepared, err := send(post("/keys/rotate/prepare", state.Token, next.PrepareKey, announced))
	if err != nil {
		return err
	}
	nonce, err := base64.RawURLEncoding.DecodeString(prepared.Nonce)
	if err != nil {
		return err
	}
	encode := base64.RawURLEncoding.EncodeToString
	_, err = send(post("/keys/rotate/confirm", state.Token, next.ConfirmKey, map[string]string{
		"key_rotation_id":           prepared.KeyRotationID,
		"nonce_b64":                 prepared.Nonce,
		"public_key_b64":            encode(public),
		"signature_b64":             encode(ed25519.Sign(newKey, nonce)),
		"predecessor_signature_b64": encode(ed25519.Sign(oldKey, append(nonce, public...))),
	}))
	return err
}

func rotateKey(state *State) error {
	if state.Rotation != nil {
		if _, err := finish(state); err != nil {
			return err
		}
	}
	for round := 0; round < 3; round++ {
		if state.Next == nil {
			state.Next = &NextKey{newSeed(), random("prepare-key"), random("confirm-key")}
			if err := save(state); err != nil {
				return err
			}
		}
		if done, err := finishKey(state); done || err != nil {
			return err
		}
	}
	return NoAnswer{"the key rotation ended three times without a new key"}
}

func enrolled() (*State, error) {
	state, err := load()
	if err == nil && state.Token == "" {
		err = errors.New("the folder holds no token: enroll first")
	}
	return state, err
}

// share is the part of its life that the token has left when it is replaced.
var share float64

// turn rotates after 60 to 80 % of the token's life, counted by the service's clock. It asks the service at least every hour,
// and replaces the key when the operator wants a new one.
func turn() error {
	state, err := enrolled()
	if err != nil {
		return err
	}
	if state.Next != nil {
		if _, err := finishKey(state); err != nil {
			return err
		}
	}
	if state.Rotation != nil {
		if _, err := finish(state); err != nil {
			return err
		}
	}
	found, err := ask(self(state.Token, nil))
	if err != nil {
		return err
	}
	if found.Key.RotationRequired {
		if err := rotateKey(state); err != nil {
			return err
		}
	}
	wait := found.lifetime() - share*state.Lifetime
	time.Sleep(time.Duration(math.Min(wait, 3600) * float64(time.Second)))
	if wait > 3600 {
		return nil
	}
	share = newShare()
	if err := rotate(state); err != nil {
		return err
	}
	fmt.Println("Rotated")
	return nil
}

func newShare() float64 { return 0.2 + 0.2*mathrand.Float64() }

// run ends only if a person has to act.
func run() error {
	if err := lock(); err != nil {
		return err
	}
	share = newShare()
	for attempt := 0; ; attempt++ {
		err := turn()
		if err == nil {
			attempt = -1
			continue
		}
		if !isPassing(err) && !strings.HasSuffix(codeOf(err), "rotation_in_progress") {
			return err
		}
		fmt.Println(err)
		pause(err, attempt)
	}
}

func status() error {
	state, err := enrolled()
	if err != nil {
		return err
	}
	found, err := send(self(state.Token, nil))
	if state.Next != nil && codeOf(err) == "bridge_proof_of_possession_invalid" {
		found, err = send(self(state.Token, state.Next.Seed))
	}
	if err == nil {
		fmt.Println(found.BridgeID, "is enrolled until", found.ExpiresAt)
	}
	return err
}

// now replaces token or key.
func now(replace func(*State) error) func() error {
	return func() error {
		if err := lock(); err != nil {
			return err
		}
		state, err := enrolled()
		if err != nil {
			return err
		}
		return replace(state)
	}
}

func main() {
	mathrand.Seed(time.Now().UnixNano())
	commands := map[string]func() error{
		"enroll": enroll, "rotate": now(rotate), "rotate-key": now(rotateKey), "run": run, "status": status,
	}
	command, isKnown := commands[os.Args[len(os.Args)-1]]
	if !isKnown {
		fmt.Fprintln(os.Stderr, "Usage: bridge enroll | rotate | rotate-key | run | status")
		os.Exit(64)
	}
	err := command()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if codeOf(err) != "" {
		os.Exit(1)
	}
	os.Exit(75)
}
