-- what version 1 of the store wrote, kept as it was: this text does not follow the code
CREATE TABLE noisefloor (schema_version INTEGER);
INSERT INTO noisefloor VALUES (1);
CREATE TABLE campaign (id VARCHAR(64) NOT NULL PRIMARY KEY, name TEXT, study TEXT, title TEXT,
  profile TEXT, design TEXT, baseline TEXT, engine TEXT, machine TEXT, created TEXT, finished TEXT,
  measured TEXT, margin_pct DOUBLE PRECISION);
CREATE TABLE verdict (campaign VARCHAR(64) NOT NULL, position INTEGER NOT NULL, workload TEXT,
  metric TEXT, threads INTEGER, baseline TEXT, arm TEXT, verdict TEXT, warnings TEXT,
  n_baseline INTEGER, n_arm INTEGER, blocks INTEGER, overhead_pct DOUBLE PRECISION,
  lo_pct DOUBLE PRECISION, hi_pct DOUBLE PRECISION, p DOUBLE PRECISION,
  p_adjusted DOUBLE PRECISION, noise_floor_pct DOUBLE PRECISION, deciding_cv_pct DOUBLE PRECISION,
  runs_needed DOUBLE PRECISION, minutes_needed DOUBLE PRECISION, control BOOLEAN, joint BOOLEAN,
  settled BOOLEAN, PRIMARY KEY (campaign, position), FOREIGN KEY (campaign) REFERENCES campaign (id));
INSERT INTO campaign VALUES ('old', 'binlog-encryption-2024', 'binlog-encryption', 'Binlog', 'full',
  'switched', 'plain', 'MySQL 8.0.31', 'a machine', '2024-05-01T10:00:00.000+00:00', NULL,
  '2024-05-01 10:00', 2);
INSERT INTO verdict VALUES ('old', 0, 'in memory', 'tps', 2, 'plain', 'encrypted', 'slower', '',
  9, 9, 4, 5.5, 3.25, 8, 0.01, 0.01, 2, 1, 9, 1, 0, 0, 1);
