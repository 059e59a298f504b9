-- The gauges of limits read the projects with limits of their own, which are few, apart from all others.
create index project_with_limits on project (project_id) where limits <> '{}';
