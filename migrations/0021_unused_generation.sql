-- Nothing reads it. It stays for now: replicas of release 0.1.0 still write it while an upgrade replaces them.
comment on column bridge_identity.generation is 'Unused; release 0.1.0 counted confirmed rotations here.';
