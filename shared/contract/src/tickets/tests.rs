//! Tests of the decoders.

use super::*;

fn read(body: &str) -> Result<CreateTicket, BadInput> {
    CreateTicket::decode(body.as_bytes())
}

fn invalid_field<T: std::fmt::Debug>(read: Result<T, BadInput>) -> String {
    match read {
        Err(BadInput::Invalid(wrong) | BadInput::TooLarge(wrong)) => wrong.field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ticket_requires_a_title_or_a_description() {
    let plain = read(r#"{"title":"  Fix it "}"#).unwrap();
    assert_eq!((plain.spec.title.as_str(), plain.spec.description.as_str()), ("Fix it", ""));
    assert_eq!(plain.duplicate_threshold, Some(DEFAULT_THRESHOLD));
    assert_eq!((plain.spec.priority, plain.spec.workflow_mode), (Priority::Medium, WorkflowMode::Quick));
    let described = read(&format!(r#"{{"description":" Fix\n{} "}}"#, "é".repeat(200))).unwrap();
    assert_eq!(described.spec.title, format!("Fix {}", "é".repeat(96)));
    assert_eq!(described.spec.description, format!(" Fix\n{} ", "é".repeat(200)));
    let coloured = read(r#"{"description":"\u001b[31mred\u0000\n"}"#).unwrap();
    assert_eq!(coloured.spec.description, "[31mred\n");
}

#[test]
fn the_invalid_field_is_named() {
    let long = format!(r#"{{"title":"{}"}}"#, "x".repeat(MAX_TITLE_CHARS + 1));
    let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(MAX_DESCRIPTION_BYTES + 1));
    for (body, field) in [
        ("", "title"),
        ("{}", "title"),
        ("[]", "body"),
        (r#"{"title":""}"#, "title"),
        (r#"{"title":" ","description":"there"}"#, "title"),
        (r#"{"title":"a\nb"}"#, "title"),
        (r#"{"title":7}"#, "title"),
        (r#"{"description":" \n"}"#, "title"),
        (r#"{"description":7}"#, "description"),
        (long.as_str(), "title"),
        (large.as_str(), "description"),
        (r#"{"title":"t","priority":"URGENT"}"#, "priority"),
        (r#"{"title":"t","phase_id":""}"#, "phase_id"),
        (r#"{"title":"t","project_id":"a b"}"#, "project_id"),
        (r#"{"title":"t","workflow_mode":"slow"}"#, "workflow_mode"),
        (r#"{"title":"t","check_duplicates":"yes"}"#, "check_duplicates"),
        (r#"{"title":"t","similarity_threshold":1.1}"#, "similarity_threshold"),
        (r#"{"title":"t","similarity_threshold":-0.1}"#, "similarity_threshold"),
        (r#"{"title":"t","similarity_threshold":"1"}"#, "similarity_threshold"),
        (r#"{"title":"t","force_create":1}"#, "force_create"),
        (r#"{"title":"t","ticket_id":"a b"}"#, "ticket_id"),
        (r#"{"title":"t","ticket_id":7}"#, "ticket_id"),
        (r#"{"title":"t","timeout_seconds":0}"#, "timeout_seconds"),
        (r#"{"title":"t","timeout_seconds":86401}"#, "timeout_seconds"),
        (r#"{"title":"t","max_retries":11}"#, "max_retries"),
        (r#"{"title":"t","max_retries":-1}"#, "max_retries"),
        (r#"{"title":"t","validation":"no"}"#, "validation"),
        (r#"{"title":"t","memory_gb":9}"#, "memory_gb"),
        (r#"{"title":"t","org":"*"}"#, "org"),
    ] {
        assert_eq!(invalid_field(read(body)), field, "{body}");
    }
    assert!(matches!(read("{"), Err(BadInput::Malformed(_))));
}

#[test]
fn only_a_retry_has_the_same_digest() {
    let digest = |body: &str| read(body).unwrap().spec.digest();
    let first = digest(r#"{"title":"t","description":"d"}"#);
    for same in [
        r#"{"description":"d","title":" t ","ticket_id":"k-1"}"#,
        r#"{"title":"t","description":"d","priority":"MEDIUM","force_create":true,"unknown":1}"#,
    ] {
        assert_eq!(digest(same), first, "{same}");
    }
    for other in [
        r#"{"title":"t","description":"e"}"#,
        r#"{"title":"t","description":"d","priority":"LOW"}"#,
        r#"{"title":"t","description":"d","max_retries":3}"#,
        r#"{"title":"t","description":"d","model":"m"}"#,
        r#"{"title":"t","description":"d","branch":"m"}"#,
    ] {
        assert_ne!(digest(other), first, "{other}");
    }
}

#[test]
fn duplicates_are_checked_by_default() {
    for (more, expected) in [
        ("", Some(DEFAULT_THRESHOLD)),
        (r#","similarity_threshold":0"#, Some(0.0)),
        (r#","similarity_threshold":1"#, Some(1.0)),
        (r#","check_duplicates":false"#, None),
        (r#","force_create":true"#, None),
        (r#","check_duplicates":true,"force_create":true"#, None),
    ] {
        assert_eq!(
            read(&format!(r#"{{"title":"t"{more}}}"#)).unwrap().duplicate_threshold,
            expected,
            "{more}"
        );
    }
}

#[test]
fn both_names_of_the_phased_mode_are_accepted() {
    for (name, mode) in [
        ("quick", WorkflowMode::Quick),
        ("phased", WorkflowMode::Phased),
        ("spec_driven", WorkflowMode::Phased),
    ] {
        let body = format!(r#"{{"title":"t","workflow_mode":"{name}"}}"#);
        assert_eq!(read(&body).unwrap().spec.workflow_mode, mode, "{name}");
    }
}

#[test]
fn the_message_about_duplicates_names_the_alternatives() {
    let candidate = |id: &str| Candidate {
        ticket_id: TicketId::parse(id).unwrap(),
        title: "Fix it".into(),
        description: String::new(),
        status: Status::Building,
        similarity_score: 0.9,
    };
    let message = Duplicates::new(vec![candidate("k-1"), candidate("k-2"), candidate("k-3")]).message;
    assert_eq!(
        message,
        "The ticket was not created: it duplicates ticket k-1 (\"Fix it\", building) and 2 more. Use the existing ticket, \
         or retry with \"force_create\": true."
    );
    assert!(Duplicates::new(vec![candidate("k-1")]).message.contains("building). Use"));
}

#[test]
fn the_required_fields_of_a_transition_and_a_rejection_are_checked() {
    let plain = Transition::decode(br#"{"to_status":"building-done"}"#).unwrap();
    assert_eq!(plain, Transition { to: Status::BuildingDone, reason: None, force: false });
    for (body, field) in [
        ("", "to_status"),
        (r#"{"to_status":"elsewhere"}"#, "to_status"),
        (r#"{"to_status":"done","force":"yes"}"#, "force"),
        (r#"{"to_status":"done","reason":7}"#, "reason"),
    ] {
        assert_eq!(invalid_field(Transition::decode(body.as_bytes())), field, "{body}");
    }
    assert_eq!(decode_rejection(br#"{"rejection_reason":" no "}"#).unwrap(), "no");
    for body in ["", "{}", r#"{"rejection_reason":""}"#] {
        assert_eq!(invalid_field(decode_rejection(body.as_bytes())), "rejection_reason", "{body}");
    }
}

#[test]
fn unknown_filter_values_are_rejected() {
    let query = |text: &str| Filter::decode(&Query::parse(text));
    let filter = query(
        "status=done&priority=HIGH&phase_id=PHASE_DONE&project_id=p-1&approval_status=timed_out&search=+Caf%C3%89+",
    );
    assert_eq!(
        filter.unwrap(),
        Filter {
            status: Some(Status::Done),
            priority: Some(Priority::High),
            phase: Some("PHASE_DONE".into()),
            project: Some(ProjectId::parse("p-1").unwrap()),
            approval: Some(ApprovalStatus::TimedOut),
            search: Some("café".into()),
        }
    );
    assert_eq!(query("search=+").unwrap(), Filter::default());
    let long = format!("search={}", "x".repeat(MAX_SEARCH_CHARS + 1));
    for (text, field) in [
        ("status=open", "status"),
        ("priority=high", "priority"),
        ("project_id=a%20b", "project_id"),
        ("approval_status=x", "approval_status"),
        (long.as_str(), "search"),
    ] {
        assert_eq!(invalid_field(query(text)), field, "{text}");
    }
}
