-- What every deployment has once: its logical instance, shown by server_identity and bound into every grant (spec 4.11).
create table service_instance (
  singleton boolean primary key default true check (singleton),
  instance_id uuid not null default gen_random_uuid()
);
insert into service_instance default values;

-- A project: the fence around identities, credentials and content (spec 1.5).
create table project (
  project_id uuid primary key,
  name text not null check (name <> ''),
  created_at timestamptz not null,
  disabled_at timestamptz
);

-- An account of a provider that Bridges of the project may name. Opaque: never a credential (spec 2.2).
create table approved_account_reference (
  project_id uuid not null references project,
  reference text not null check (reference <> ''),
  label text,
  approved_at timestamptz not null,
  withdrawn_at timestamptz,
  primary key (project_id, reference)
);
