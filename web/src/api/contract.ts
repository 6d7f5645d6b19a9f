// Made by `cargo xtask gen` from shared/contract and shared/domain. Do not edit: change those, and make it again.

/** Anything that JSON can say. */
export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject;

/** One JSON object. */
export interface JsonObject {
  [name: string]: JsonValue;
}

/** A moment in UTC, to the microsecond: `2026-01-01T00:00:00.000000Z`, which sorts as text. */
export type Timestamp = string;

/** A sandbox: one agent's machine, and the log of what happened in it. */
export type SandboxId = string;

/** An organisation. Everything in the plane belongs to exactly one. */
export type OrgId = string;

/** One session of an agent, as the agent names it. */
export type SessionId = string;

/** Where a sandbox stands in its life. */
export const SANDBOX_STATUSES = [
  /** Somebody else runs it, and it was silent so far. */
  "registered",
  /** The plane has written it down and will make it. */
  "pending",
  /** The plane makes it. */
  "creating",
  /** Something came from it. */
  "running",
  /** Its agent is done; it is being taken down. */
  "completing",
  /** Its agent was done, and it is gone. Its log stays, and still takes what its worker had left to say. */
  "completed",
  /** It did not do what it was made for. Its log stays, as above. */
  "failed",
  /** Somebody called it off. Its log stays, as above. */
  "terminated",
  /** What a newer version wrote and this one does not know. It stays as it is in the table. */
  "unknown",
] as const;
/** Where a sandbox stands in its life. */
export type SandboxStatus = (typeof SANDBOX_STATUSES)[number];

/** All heartbeats of a sandbox. */
export interface HeartbeatSummary {
  /** How many. */
  count: number;
  /** When the first came. */
  first_heartbeat: Timestamp | null;
  /** When the latest came. */
  last_heartbeat: Timestamp | null;
}

/** How a sandbox ended. */
export interface SandboxEnded {
  /** When. */
  at: Timestamp;
  /** Why, in words for people. */
  reason: string;
}

/** One sandbox, as it is read. */
export interface SandboxOut {
  /** Its id. */
  sandbox_id: SandboxId;
  /** Its org. */
  org: OrgId;
  /** A person's name for it. */
  name: string | null;
  /** The session that its agent goes on with, if it was registered to. */
  resumes?: SessionId;
  /** Where it stands in its life. */
  status: SandboxStatus;
  /** When it was registered. */
  created_at: Timestamp;
  /** When anything last came in. */
  last_event_at: Timestamp | null;
  /** When something that shows work last came in. */
  last_work_at: Timestamp | null;
  /** Last sequence number of its log. */
  last_seq: number;
  /** The last batch that was stored. */
  epoch: number;
  /** The last batch that was stored. */
  batch: number;
  /** Signs of life. */
  heartbeats: HeartbeatSummary;
  /** What the latest heartbeat said of the agent's state. */
  heartbeat_status: string | null;
  /** Events by type, as far as they are counted. */
  event_counts: { [name: string]: number };
  /** How many messages wait until its worker confirms them. */
  queue_size: number;
  /** When and why it ended, if it did. */
  ended?: SandboxEnded;
}

/** `GET /api/v1/sandboxes`. */
export interface SandboxList {
  /** Newest first. */
  sandboxes: SandboxOut[];
  /** Give it back as `cursor` for the next page; `null` at the end. */
  next_cursor: string | null;
}

/** A sandbox and the token of its worker, which is shown this once. */
export interface Registered {
  /** The sandbox. */
  sandbox: SandboxOut;
  /** What its worker sends as `Authorization: Bearer …`. */
  worker_token: string;
  /** When that token ends. */
  expires_at: Timestamp;
}

/** `GET /api/v1/sandboxes/health`. */
export interface Health {
  /** `ok`. */
  status: string;
  /** `sandbox-api`. */
  service: string;
  /** Now. */
  timestamp: Timestamp;
}

/** One event, as its sender names it, or as we do if the sender does not. */
export type EventId = string;

/** A task: one piece of work, done by an agent in a sandbox. */
export type TaskId = string;

/** A ticket: what a person wants done. Tasks do it. */
export type TicketId = string;

/** Whose log it is: one field, named after the kind of the entity. */
export type EntityOut =
  /** `"sandbox_id": "s-1"`. */
  | { sandbox_id: SandboxId; task_id?: never; ticket_id?: never }
  /** `"task_id": "t-1"`. */
  | { task_id: TaskId; sandbox_id?: never; ticket_id?: never }
  /** `"ticket_id": "t-1"`. */
  | { ticket_id: TicketId; sandbox_id?: never; task_id?: never };

/** A checked event type. */
export type EventType = string;

/** Who an event speaks for. */
export const SOURCES = [
  /** The coding agent. */
  "agent",
  /** The process around it. */
  "worker",
  /** A person. */
  "user",
  /** The guardian that watches agents. */
  "guardian",
  /** The plane itself. */
  "system",
] as const;
/** Who an event speaks for. */
export type Source = (typeof SOURCES)[number];

/** Where an event's full data is. */
export interface BodyOut {
  /** `GET` this. Absent for tasks and tickets, whose data is all in their log: what a frame leaves out is read there. */
  href?: string;
  /** Size of the full data. */
  size_bytes: number;
  /** Fields that are missing here. */
  omitted: string[];
}

/** One event of the log, as it is read. */
export type EventOut = EntityOut & {
  /** Its id. */
  id: EventId;
  /** Its place in the log. */
  seq: number;
  /** Its type, as sent. */
  event_type: EventType;
  /** What it says; abridged when `body` is present. */
  event_data: JsonObject;
  /** Who speaks. */
  source: Source;
  /** When the plane stored it. */
  created_at: Timestamp;
  /** When the sender says that it happened. */
  emitted_at: Timestamp | null;
  /** Where to get the full data, when it is not all here. */
  body?: BodyOut;
};

/** `GET …/events`. */
export type EventPage = EntityOut & {
  /** The page, in the order that was asked for. */
  events: EventOut[];
  /** How many events of the log pass the filters, this page or not; `null` where that is not counted. */
  total_count: number | null;
  /** Last sequence number of the log. */
  last_seq: number;
  /** Whether there is more in this direction. */
  has_more: boolean;
  /** With `order=oldest`: ask for what follows with this `after_seq`. Set even on an empty page. */
  next_after_seq: number | null;
  /** With `order=newest`: ask for what came before with this `before_seq`. Set even on an empty page. */
  next_before_seq: number | null;
};

/** `GET …/trajectory`. */
export interface Trajectory {
  /** Whose. */
  sandbox_id: SandboxId;
  /** Newest first. */
  events: EventOut[];
  /** The heartbeats, which are not events of the trajectory. */
  heartbeat_summary: HeartbeatSummary;
  /** Everything that ever came in, heartbeats included. */
  total_events: number;
  /** Everything but the heartbeats. */
  trajectory_events: number;
  /** For `direction=older`; `null` at the beginning of the log. */
  next_cursor: string | null;
  /** For `direction=newer`: what came after the newest event here. */
  prev_cursor: string | null;
  /** Whether there is more in the direction that was asked for. */
  has_more: boolean;
}

/** A change to filters: a named list replaces the one before, an absent one leaves it. */
export interface FilterChange {
  /** Event names in any of their spellings. */
  event_types?: string[];
  /** `sandbox`, `task`, `ticket`. */
  entity_types?: string[];
  /** Ids of entities. */
  entity_ids?: string[];
}

/** A change of what a socket wants. */
export type Subscribe = FilterChange & {
  /** Whether events that are told together may come in one frame `{"type":"events","events":[…]}`. */
  batch?: boolean;
};

/** What a client may say. */
export type ClientFrame =
  /** `{"type":"auth","token":…}`: who I am. */
  | {
      type: "auth";
      /** A user, worker or operator token. */
      token: string;
    }
  /** `{"type":"subscribe", …}`: what I want to see from now on. */
  | ({ type: "subscribe" } & Subscribe)
  /** `{"type":"ping"}`, answered by a pong. */
  | { type: "ping" }
  /** `{"type":"pong"}`: an answer to our ping; nothing to do. */
  | { type: "pong" };

/** AND across the three lists, OR within each; an empty list does not restrict. */
export interface Filters {
  /** Event names in any of their spellings, kept in the plain one. */
  event_types?: string[];
  /** `sandbox`, `task`, `ticket`, … */
  entity_types?: string[];
  /** Ids of entities. */
  entity_ids?: string[];
}

/** What was asked for holds from now on. */
export type ConfirmedFrame =
  /** Every matching event comes. */
  | {
      status: "subscribed";
      /** As they are kept. */
      filters: Filters;
      /** Whether events that are told together may come in one frame. */
      batch: boolean;
    }
  /** The token is good. */
  | { status: "authenticated" };

/** An event on a socket. */
export interface EventFrame {
  /** The event's id. */
  id: EventId;
  /** Its place in the entity's log; `null` for what is fleeting. */
  seq: number | null;
  /** Name on the bus: `SANDBOX_AGENT_TOOL_USE`, `TASK_CREATED`. */
  event_type: string;
  /** `sandbox`, `task` or `ticket`. */
  entity_type: string;
  /** Which one. */
  entity_id: string;
  /** The event's data with `source` and `original_event_type`, as OmoiOS sends it. */
  payload: JsonObject;
  /** When the plane stored it. */
  timestamp: Timestamp;
}

/** What needs no answer but a pong to a ping. */
export type PlainFrame =
  /** The plane's sign of life. */
  | { type: "ping" }
  /** The answer to one. */
  | { type: "pong" }
  /** Several events, in order; only for who asked for `batch`. See `bundle`. */
  | {
      type: "events";
      /** The oldest first. */
      events: EventFrame[];
    };

/** What was asked for is not done. */
export interface ErrorFrame {
  /** A sentence. */
  error: string;
  /** A stable word. */
  code: string;
}

/** What the plane may say. Each is told by the field that it alone has: `status`, `type`, `error`, `event_type`. */
export type PlaneFrame =
  /** What was asked for holds from now on. */
  | ConfirmedFrame
  /** A sign of life, or several events. */
  | PlainFrame
  /** What was asked for is not done. */
  | ErrorFrame
  /** One event. */
  | EventFrame;

/** A project of an org: tasks of one share a limit. */
export type ProjectId = string;

/** How much a task matters. */
export const PRIORITIES = [
  /** When there is nothing else. */
  "LOW",
  /** As usual. */
  "MEDIUM",
  /** Soon. */
  "HIGH",
  /** Now. */
  "CRITICAL",
] as const;
/** How much a task matters. */
export type Priority = (typeof PRIORITIES)[number];

/** Where a task stands. */
export const TASK_STATUSES = [
  /** It waits: for what it depends on, for its turn, or until it may be tried again. */
  "pending",
  /** It has a sandbox on paper. */
  "claiming",
  /** Its sandbox is being made. */
  "assigned",
  /** An agent works on it. */
  "running",
  /** It is done, and somebody has to look at it. */
  "validating",
  /** Somebody looked, and it is not good enough. */
  "needs_revision",
  /** It is done. */
  "completed",
  /** It will not be done unless somebody asks for it. */
  "failed",
  /** Somebody called it off. */
  "cancelled",
] as const;
/** Where a task stands. */
export type TaskStatus = (typeof TASK_STATUSES)[number];

/** What a task waits for, as OmoiOS spells it. */
export interface DependsOnOut {
  /** Ids. */
  depends_on: TaskId[];
}

/** One task, as it is read. */
export interface TaskOut {
  /** Its id. */
  id: TaskId;
  /** What it is done for. */
  ticket_id: TicketId | null;
  /** The project whose limit it counts towards. */
  project_id: ProjectId | null;
  /** Phase of its ticket. */
  phase_id: string;
  /** What kind of work. */
  task_type: string;
  /** In a few words. */
  title: string;
  /** In full. */
  description: string;
  /** How much it matters. */
  priority: Priority;
  /** Where it stands. */
  status: TaskStatus;
  /** The sandbox of the current try, or of the last. */
  sandbox_id: SandboxId | null;
  /** Always `null`: agents live in sandboxes. OmoiOS's clients look for it. */
  assigned_agent_id: string | null;
  /** When it was created. */
  created_at: Timestamp;
  /** When anything of it last changed. */
  updated_at: Timestamp;
  /** When an agent first worked on it. */
  started_at: Timestamp | null;
  /** When it ended. */
  completed_at: Timestamp | null;
  /** How urgent it is now. */
  score: number;
  /** Number of the current try, or of the last. */
  attempt: number;
  /** How often it was tried again by itself. */
  retry_count: number;
  /** How often it may be. */
  max_retries: number;
  /** Why it, or the last try, failed. */
  error_message: string | null;
  /** What came of it. */
  result: JsonObject | null;
  /** What must be completed before it. */
  dependencies: DependsOnOut;
  /** Whether something of that is not. */
  blocked: boolean;
  /** It is not tried before this. */
  not_before: Timestamp | null;
  /** How long it may run. */
  timeout_seconds: number | null;
  /** When the try that is at work has run for so long, and is ended. */
  times_out_at: Timestamp | null;
  /** When it should be done. */
  deadline_at: Timestamp | null;
  /** Whether somebody has to look at the result before it counts. */
  validation: boolean;
  /** What whoever looked had to say. */
  feedback: string | null;
}

/** `GET /api/v1/tasks`. */
export interface TaskList {
  /** Newest first. */
  tasks: TaskOut[];
  /** Give it back as `cursor` for the next page; `null` at the end. */
  next_cursor: string | null;
  /** Whether there may be more. A page may be empty and have more behind it: few of many were asked for. */
  has_more: boolean;
}

/** What came of `…/fail` and `…/cancel`. */
export interface TaskEnded {
  /** Which task. */
  task_id: TaskId;
  /** Where it stands now. */
  status: TaskStatus;
  /** Where it stood. */
  old_status: TaskStatus;
  /** Whether it was called off. */
  cancelled: boolean;
  /** Why. */
  reason: string;
}

/** A task that waits for another. */
export interface BlockedTask {
  /** Which. */
  id: TaskId;
  /** The beginning of its text, or its title if it has none. */
  description: string;
  /** Where it stands. */
  status: TaskStatus;
}

/** `GET /api/v1/tasks/{id}/dependencies`. */
export interface TaskDependencies {
  /** Which task. */
  task_id: TaskId;
  /** What it waits for. */
  depends_on: TaskId[];
  /** Whether all of that is completed. */
  dependencies_complete: boolean;
  /** Those that wait for it, at most a hundred. */
  blocked_tasks: BlockedTask[];
}

/** Where a ticket stands. */
export const TICKET_STATUSES = [
  /** Nobody has begun. */
  "backlog",
  /** Somebody finds out what is wanted. */
  "analyzing",
  /** It is being made. */
  "building",
  /** It is made. */
  "building-done",
  /** It is being tried. */
  "testing",
  /** It is over. */
  "done",
] as const;
/** Where a ticket stands. */
export type TicketStatus = (typeof TICKET_STATUSES)[number];

/** Where a ticket's approval stands. */
export const APPROVAL_STATUSES = [
  /** It may be worked on. */
  "approved",
  /** Somebody has to look. */
  "pending_review",
  /** Somebody looked, and said no. */
  "rejected",
  /** Nobody looked in time. */
  "timed_out",
] as const;
/** Where a ticket's approval stands. */
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

/** How a ticket becomes tasks. */
export const WORKFLOW_MODES = [
  /** One task does all of it. */
  "quick",
  /** First somebody finds out what is wanted. */
  "phased",
] as const;
/** How a ticket becomes tasks. */
export type WorkflowMode = (typeof WORKFLOW_MODES)[number];

/** One ticket, as it is read. */
export interface TicketOut {
  /** Its id. */
  id: TicketId;
  /** Its org. */
  org: OrgId;
  /** In a few words. */
  title: string;
  /** In full. */
  description: string;
  /** The phase it is in. */
  phase_id: string;
  /** The phase before. */
  previous_phase_id: string | null;
  /** Where it stands. */
  status: TicketStatus;
  /** How much it matters. */
  priority: Priority;
  /** Whether something is in its way. */
  is_blocked: boolean;
  /** What. */
  blocked_reason: string | null;
  /** Since when. */
  blocked_at: Timestamp | null;
  /** Whether it may be worked on. */
  approval_status: ApprovalStatus;
  /** By when somebody has to say so. */
  approval_deadline_at: Timestamp | null;
  /** Why it may not. */
  rejection_reason: string | null;
  /** Who decided. */
  reviewed_by: string | null;
  /** Its project. */
  project_id: ProjectId | null;
  /** The repository that it is about. */
  repository: string | null;
  /** How it becomes tasks. */
  workflow_mode: WorkflowMode;
  /** The task that began the work on it. */
  task_id: TaskId | null;
  /** Who wants it. */
  created_by: string | null;
  /** When it was created. */
  created_at: Timestamp;
  /** When anything of it last changed. */
  updated_at: Timestamp;
  /** Last sequence number of its log. */
  last_seq: number;
}

/** One task of a ticket, in short. */
export interface TaskOfTicket {
  /** Its id. */
  id: TaskId;
  /** In a few words. */
  title: string;
  /** What kind of work. */
  task_type: string;
  /** Where it stands. */
  status: TaskStatus;
  /** The sandbox of its latest try. */
  sandbox_id: SandboxId | null;
  /** When it was created. */
  created_at: Timestamp;
}

/** `GET /api/v1/tickets/{id}`: a ticket, and what is done for it. */
export type TicketShown = TicketOut & {
  /** Its newest tasks, newest first. */
  tasks: TaskOfTicket[];
  /** Whether there are more, for `GET /api/v1/tasks?ticket_id=`. */
  has_more_tasks: boolean;
};

/** `GET /api/v1/tickets`. */
export interface TicketList {
  /** Newest first. */
  tickets: TicketOut[];
  /** Give it back as `cursor` for the next page; `null` at the end. A page may be empty and not the last. */
  next_cursor: string | null;
  /** Whether there may be more. */
  has_more: boolean;
}

/** A ticket that asks for much the same. */
export interface DuplicateTicket {
  /** Which. */
  ticket_id: TicketId;
  /** In a few words. */
  title: string;
  /** In full. */
  description: string;
  /** Where it stands. */
  status: TicketStatus;
  /** From 0 to 1. */
  similarity_score: number;
}

/** The answer to a ticket that is not created, because there is one like it. */
export interface Duplicates {
  /** Always true: what tells this answer from a ticket. */
  is_duplicate: boolean;
  /** For a person. */
  message: string;
  /** The most similar first. */
  candidates: DuplicateTicket[];
  /** Of the first of them. */
  highest_similarity: number;
}

/** One message to an agent, as its sender names it, or as we do if the sender does not. */
export type MessageId = string;

/** The answer to a message: it is stored, and will reach the worker. */
export interface MessageQueued {
  /** Always `queued`. */
  status: string;
  /** Under which id. */
  message_id: MessageId;
  /** For whom. */
  sandbox_id: SandboxId;
  /** How many waited for the worker then, this one included. */
  queue_size: number;
  /** The sequence number of the event that tells of it: whoever follows the log from there sees its receipts. */
  seq: number;
}

/** What a message is meant to do. */
export const MESSAGE_TYPES = [
  /** A person says something to the agent. */
  "user_message",
  /** Stop this turn, then read what I say. Overtakes everything. */
  "interrupt",
  /** Stop everything, also what you were told and have not begun, and then wait. Overtakes everything. */
  "stop",
  /** Whoever watches the agent nudges it. OmoiOS calls it `guardian_nudge`. */
  "guidance",
  /** A notice of the plane. */
  "system",
] as const;
/** What a message is meant to do. */
export type MessageType = (typeof MESSAGE_TYPES)[number];

/** Who sent a message. */
export interface MessageSender {
  /** `user` or `operator`. */
  kind: string;
  /** Which user. */
  id?: string;
}

/** How far a message has come. Later ones are greater. */
export const MESSAGE_STATES = [
  /** Stored. */
  "queued",
  /** Handed to a worker, which has not confirmed it yet. */
  "fetched",
  /** The worker has given it to the agent. */
  "delivered",
  /** The agent works on it. */
  "started",
  /** The agent is done with it. */
  "completed",
  /** It will not be worked on, or no longer. */
  "cancelled",
] as const;
/** How far a message has come. Later ones are greater. */
export type MessageState = (typeof MESSAGE_STATES)[number];

/** When a message reached a state. */
export interface MessageReceipt {
  /** Which. */
  state: MessageState;
  /** When. */
  at: Timestamp;
  /** What the worker has to say about it. */
  detail?: string;
}

/** A message and how far it has come. */
export interface MessageRecord {
  /** Its id. */
  id: MessageId;
  /** The sequence number of the event that told of it. */
  seq: number;
  /** What it is meant to do. */
  message_type: MessageType;
  /** Who sent it. */
  sender: MessageSender;
  /** Its text. */
  content: string;
  /** When it was sent. */
  timestamp: Timestamp;
  /** How far it has come. */
  state: MessageState;
  /** How often it was handed to a worker. */
  deliveries: number;
  /** When it reached each state. */
  receipts: MessageReceipt[];
}

/** `GET …/messages/history`. */
export interface MessageHistory {
  /** Whose. */
  sandbox_id: SandboxId;
  /** Newest first. */
  messages: MessageRecord[];
  /** How many wait for the worker. */
  queue_size: number;
  /** Ask for what came before with this `before`; `null` at the beginning. */
  next_before: number | null;
}

/** `POST /api/v1/tickets`: needs a title, or a description to take it from. */
export interface NewTicket {
  /** The sender's id; made up when absent. A repeat with the same id is one ticket. */
  ticket_id?: TicketId;
  /** Its org; the caller's own when absent. */
  org?: OrgId;
  /** In a few words; the beginning of the description when absent. */
  title?: string;
  /** In full. */
  description?: string;
  /** How much it matters. */
  priority?: Priority;
  /** A phase of its own to begin in. */
  phase_id?: string;
  /** The project that its tasks count towards. */
  project_id?: ProjectId;
  /** How it becomes tasks; `quick` when absent. */
  workflow_mode?: WorkflowMode;
  /** `claude`, `acp:<command>` or `scripted:<file>`. */
  agent?: string;
  /** The agent's model. */
  model?: string;
  /** An address, or `owner/name` at GitHub. */
  repository?: string;
  /** `repository` in two parts. */
  github_owner?: string;
  /** `repository` in two parts. */
  github_repo?: string;
  /** The branch to begin at. */
  branch?: string;
  /** Memory of the sandbox. */
  memory_gb?: number;
  /** Processors of the sandbox. */
  cpu?: number;
  /** Disk of the sandbox. */
  disk_gb?: number;
  /** The image that the sandbox starts from. */
  snapshot?: string;
  /** How long its task may run. */
  timeout_seconds?: number;
  /** How often its task is tried again by itself. */
  max_retries?: number;
  /** Whether somebody has to look at the result before it counts. */
  validation?: boolean;
  /** Whether to look for a ticket that asks for the same; `true` when absent. */
  check_duplicates?: boolean;
  /** From 0 to 1: from where on another counts as the same. */
  similarity_threshold?: number;
  /** Creates it although there is one like it. */
  force_create?: boolean;
}

/** `POST /api/v1/sandboxes/{id}/messages`. */
export interface NewMessage {
  /** The text. */
  content: string;
  /** What it is meant to do; `user_message` when absent. */
  message_type?: MessageType;
  /** The sender's id; made up when absent. A repeat with the same id is one message. */
  message_id?: MessageId;
}

/** `POST /api/v1/tasks/{id}/fail` and `…/cancel`. */
export interface EndTask {
  /** Why. */
  reason?: string;
}

/** `POST /api/v1/tickets/{id}/transition`. */
export interface MoveTicket {
  /** Where it should stand. */
  to_status: TicketStatus;
  /** Why. */
  reason?: string;
  /** Whether the usual ways may be left. */
  force?: boolean;
}

/** `POST /api/v1/tickets/{id}/reject`. */
export interface RejectTicket {
  /** Why. */
  rejection_reason: string;
}

/** What was heard of a sandbox. */
export interface ActivityOut {
  /** When anything last came in. */
  last_event_at: Timestamp | null;
  /** When something that shows work last came in. */
  last_work_at: Timestamp | null;
  /** The latest heartbeat. */
  last_heartbeat_at: Timestamp | null;
  /** What that said of the agent. */
  heartbeat_status: string | null;
  /** For how long nothing has shown work; `null` before anything was heard. */
  idle_seconds: number | null;
}

/** The stages of making a sandbox. Each can be done again. */
export const SPAWN_STAGES = [
  /** It is written down. */
  "recorded",
  /** What it needs is made ready: the place for a branch of its own. */
  "preparing",
  /** The provider makes it. */
  "creating",
  /** The worker is put into it. */
  "uploading",
  /** The worker is started. */
  "starting",
  /** All is done; its worker is to be heard. */
  "started",
] as const;
/** The stages of making a sandbox. Each can be done again. */
export type SpawnStage = (typeof SPAWN_STAGES)[number];

/** How far a sandbox has come. */
export interface PhaseStatus {
  /** What is being done, or was done last. */
  stage: SpawnStage;
  /** Since when. */
  since: Timestamp;
  /** What it is for. */
  task_id: TaskId;
  /** The task's ticket. */
  ticket_id: TicketId | null;
  /** Which try at the task. */
  attempt: number;
  /** Who makes it. */
  provider: string;
}

/** One sandbox. */
export interface Monitored {
  /** Which. */
  sandbox_id: SandboxId;
  /** Where it stands in its life. */
  status: SandboxStatus;
  /** What was heard of it. */
  activity: ActivityOut;
  /** How far it has come. */
  phase_status: PhaseStatus | null;
  /** Whether the next sweep will end it. */
  stuck: boolean;
}

/** `GET /api/v1/monitoring/status`. The numbers are about the sandboxes on this page. */
export interface Monitoring {
  /** Those that the plane looks after, by id. */
  sandboxes: Monitored[];
  /** How many of them are not over. */
  active_count: number;
  /** How many of them write specifications: none, since the plane has no such kind. OmoiOS's clients look for it. */
  spec_sandbox_count: number;
  /** How many of them will be ended by the next sweep. */
  stuck_count: number;
  /** Give it back as `cursor` for the next page; `null` at the end. */
  next_cursor: SandboxId | null;
  /** Whether there are more. */
  has_more: boolean;
  /** Now. */
  timestamp: Timestamp;
}

/** `GET /api/v1/sandboxes/{id}/phase-status`. */
export interface SandboxPhase {
  /** Which. */
  sandbox_id: SandboxId;
  /** How far it has come; `null` if the plane did not make it. */
  phase_status: PhaseStatus | null;
  /** What was heard of it. */
  activity: ActivityOut;
  /** Now. */
  timestamp: Timestamp;
}

/** What went wrong, for the one who asked. */
export type Problem = JsonObject & {
  /** `urn:sunaba:problem:<code>`. */
  type: string;
  /** The HTTP status in words. */
  title: string;
  /** The HTTP status. */
  status: number;
  /** A stable word to match on. */
  code: string;
  /** A sentence for a person. OmoiOS clients read this field too. */
  detail: string;
  /** The field that is wrong, where it is one. */
  field?: string;
  /** To find it in the logs. */
  request_id: string;
};

/** Every type of event that the plane and its worker tell. Others may tell what they like. */
export const EVENT_TYPES = [
  "sandbox.pending",
  "sandbox.preparing",
  "sandbox.creating",
  "sandbox.uploading",
  "sandbox.starting",
  "sandbox.spawned",
  "sandbox.running",
  "sandbox.retrying",
  "sandbox.completing",
  "sandbox.completed",
  "sandbox.failed",
  "sandbox.terminated",
  "sandbox.terminated_idle",
  "sandbox.released",
  "task.created",
  "task.ready",
  "task.claimed",
  "task.assigned",
  "task.started",
  "task.completed",
  "task.failed",
  "task.retrying",
  "task.cancelled",
  "task.validating",
  "task.needs_revision",
  "task.updated",
  "task.dependencies_changed",
  "ticket.created",
  "ticket.transitioned",
  "ticket.approved",
  "ticket.rejected",
  "ticket.timed_out",
  "ticket.blocked",
  "ticket.unblocked",
  "message.queued",
  "message.fetched",
  "message.delivered",
  "message.started",
  "message.completed",
  "message.cancelled",
  "workspace.cloning",
  "workspace.ready",
  "workspace.failed",
  "workspace.changes_left_out",
  "workspace.snapshots_off",
  "agent.started",
  "agent.system_message",
  "agent.user_message",
  "agent.message",
  "agent.thinking",
  "agent.assistant_message",
  "agent.tool_use",
  "agent.tool_completed",
  "agent.tool_result",
  "agent.user_tool_result",
  "agent.subagent_invoked",
  "agent.subagent_completed",
  "agent.skill_invoked",
  "agent.skill_completed",
  "agent.file_edited",
  "agent.permission_decided",
  "agent.plan",
  "agent.turn_completed",
  "agent.message_injected",
  "agent.interrupted",
  "agent.completed",
  "agent.failed",
  "agent.waiting",
  "agent.stream_error",
  "agent.error",
  "agent.unparsed",
  "agent.shutdown",
  "agent.heartbeat",
  "agent.partial",
  "continuous.started",
  "continuous.completed",
  "iteration.started",
  "iteration.completed",
  "iteration.failed",
  "iteration.completion_signal",
  "iteration.validation",
  "preview.starting",
  "preview.ready",
  "preview.failed",
  "preview.stopped",
  "worker.outbox_full",
  "worker.event_refused",
  "worker.receipt_refused",
  "worker.transcript_refused",
  "worker.transcript_behind",
  "worker.spool_damaged",
  "worker.transcript_lost",
] as const;

/** A type of event that the plane or its worker tells. */
export type KnownEventType = (typeof EVENT_TYPES)[number];
