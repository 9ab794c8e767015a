-- Demo data server: machines, their sites and models, daily operating hours, work orders.
-- Days are integers of the form YYYYMMDD in every table.

CREATE TABLE equipment_site (
    site_id INTEGER PRIMARY KEY,
    site_name TEXT NOT NULL UNIQUE,
    country TEXT NOT NULL
);

CREATE TABLE equipment_model (
    model_id INTEGER PRIMARY KEY,
    model_code TEXT NOT NULL UNIQUE,
    family TEXT NOT NULL,
    rated_kw INTEGER NOT NULL
);

CREATE TABLE equipment_machine (
    machine_id INTEGER PRIMARY KEY,
    serial_key TEXT NOT NULL UNIQUE,
    serial_raw TEXT NOT NULL,
    model_id INTEGER NOT NULL REFERENCES equipment_model (model_id),
    site_id INTEGER NOT NULL REFERENCES equipment_site (site_id),
    commissioned_day INTEGER NOT NULL,
    retired_day INTEGER
);

CREATE INDEX machine_by_site ON equipment_machine (site_id);
CREATE INDEX machine_by_model ON equipment_machine (model_id);

CREATE TABLE telemetry_hours (
    machine_id INTEGER NOT NULL REFERENCES equipment_machine (machine_id),
    day_key INTEGER NOT NULL,
    hours REAL NOT NULL,
    PRIMARY KEY (machine_id, day_key)
) WITHOUT ROWID;

CREATE INDEX telemetry_by_day ON telemetry_hours (day_key);

CREATE TABLE fault_catalogue (
    fault_code TEXT PRIMARY KEY,
    meaning TEXT NOT NULL UNIQUE
) WITHOUT ROWID;

CREATE TABLE work_order (
    order_id INTEGER PRIMARY KEY,
    machine_id INTEGER NOT NULL REFERENCES equipment_machine (machine_id),
    kind TEXT NOT NULL CHECK (kind IN ('service', 'repair', 'inspection')),
    fault_code TEXT REFERENCES fault_catalogue (fault_code),
    opened_day INTEGER NOT NULL,
    closed_day INTEGER,
    note TEXT NOT NULL
);

CREATE INDEX order_by_machine ON work_order (machine_id, opened_day);
CREATE INDEX order_by_fault ON work_order (fault_code, opened_day);

CREATE TABLE reporting_window (
    window_name TEXT PRIMARY KEY,
    first_day_key INTEGER NOT NULL,
    last_day_key INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE data_dictionary (
    table_name TEXT NOT NULL,
    column_name TEXT NOT NULL,
    meaning TEXT NOT NULL,
    PRIMARY KEY (table_name, column_name)
) WITHOUT ROWID;

INSERT INTO data_dictionary (table_name, column_name, meaning) VALUES
    ('equipment_site', 'site_id', 'key'),
    ('equipment_site', 'site_name', 'unique name of the site'),
    ('equipment_site', 'country', 'two-letter code'),
    ('equipment_model', 'model_id', 'key'),
    ('equipment_model', 'model_code', 'unique code of the model'),
    ('equipment_model', 'family', 'excavator, loader, crane or pump'),
    ('equipment_model', 'rated_kw', 'rated power in kW'),
    ('equipment_machine', 'machine_id', 'key, used by telemetry_hours and work_order'),
    ('equipment_machine', 'serial_key', 'canonical serial, unique, indexed: SN- and six digits'),
    ('equipment_machine', 'serial_raw', 'serial as people typed it: spelling varies, not indexed'),
    ('equipment_machine', 'model_id', 'row of equipment_model'),
    ('equipment_machine', 'site_id', 'row of equipment_site'),
    ('equipment_machine', 'commissioned_day', 'YYYYMMDD'),
    ('equipment_machine', 'retired_day', 'YYYYMMDD, NULL while in use'),
    ('telemetry_hours', 'machine_id', 'row of equipment_machine'),
    ('telemetry_hours', 'day_key', 'YYYYMMDD as integer; days without operation have no row'),
    ('telemetry_hours', 'hours', 'operating hours on that day'),
    ('fault_catalogue', 'fault_code', 'key'),
    ('fault_catalogue', 'meaning', 'what the code stands for'),
    ('work_order', 'order_id', 'key'),
    ('work_order', 'machine_id', 'row of equipment_machine'),
    ('work_order', 'kind', 'service, repair or inspection'),
    ('work_order', 'fault_code', 'row of fault_catalogue, indexed; NULL unless kind is repair'),
    ('work_order', 'opened_day', 'YYYYMMDD'),
    ('work_order', 'closed_day', 'YYYYMMDD, NULL while open'),
    ('work_order', 'note', 'free text, not indexed'),
    ('reporting_window', 'window_name', 'trailing-12-months, last-month or year-to-date'),
    ('reporting_window', 'first_day_key', 'first day of the window, YYYYMMDD'),
    ('reporting_window', 'last_day_key', 'last day of the window, YYYYMMDD');
