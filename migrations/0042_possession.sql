-- Since when a Bridge has to prove with every request that it holds its key (decisions.md, Proof of possession).
alter table bridge_identity add column dpop_required_since timestamptz;

-- The proofs of the last minutes, so that none works twice at any replica: the hash of the key's fingerprint and the jti.
create table bridge_dpop_proof (
  proof_hash bytea primary key check (length(proof_hash) = 32),
  forget_at timestamptz not null
);
create index bridge_dpop_proof_by_time on bridge_dpop_proof (forget_at);
