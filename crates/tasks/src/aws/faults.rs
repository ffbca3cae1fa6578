//! The error codes in each service's model. Data.
//!
//! Step Functions reports such an error under its own name, and every other one under the name of the whole service: a
//! missing table is `DynamoDb.ResourceNotFoundException`, and an invalid parameter is `DynamoDb.DynamoDbException`.

/// Whether a model has a code.
pub(super) fn has(codes: &str, code: &str) -> bool {
    codes.split_ascii_whitespace().any(|known| known == code)
}

pub(super) const DYNAMODB: &str = "\
    BackupInUseException BackupNotFoundException ConditionalCheckFailedException \
    ContinuousBackupsUnavailableException DuplicateItemException ExportConflictException \
    ExportNotFoundException GlobalTableAlreadyExistsException GlobalTableNotFoundException \
    IdempotentParameterMismatchException ImportConflictException ImportNotFoundException \
    IndexNotFoundException InternalServerError InvalidExportTimeException InvalidRestoreTimeException \
    ItemCollectionSizeLimitExceededException LimitExceededException PointInTimeRecoveryUnavailableException \
    PolicyNotFoundException ProvisionedThroughputExceededException ReplicaAlreadyExistsException \
    ReplicaNotFoundException ReplicatedWriteConflictException RequestLimitExceeded ResourceInUseException \
    ResourceNotFoundException TableAlreadyExistsException TableInUseException TableNotFoundException \
    ThrottlingException TransactionCanceledException TransactionConflictException \
    TransactionInProgressException";
pub(super) const ECS: &str = "\
    AccessDeniedException AttributeLimitExceededException BlockedException ClientException \
    ClusterContainsCapacityProviderException ClusterContainsContainerInstancesException \
    ClusterContainsServicesException ClusterContainsTasksException ClusterNotFoundException \
    ConflictException DaemonNotActiveException DaemonNotFoundException GatewayNotFoundException \
    InvalidParameterException LimitExceededException MissingVersionException NamespaceNotFoundException \
    NoUpdateAvailableException PlatformTaskDefinitionIncompatibilityException PlatformUnknownException \
    ResourceInUseException ResourceNotFoundException ServerException ServiceDeploymentNotFoundException \
    ServiceNotActiveException ServiceNotFoundException TargetNotConnectedException TargetNotFoundException \
    TaskSetNotFoundException UnsupportedFeatureException UpdateInProgressException";
pub(super) const EVENTBRIDGE: &str = "\
    AccessDeniedException ConcurrentModificationException IllegalStatusException InternalException \
    InvalidEventPatternException InvalidStateException LimitExceededException ManagedRuleException \
    OperationDisabledException PolicyLengthExceededException ResourceAlreadyExistsException \
    ResourceNotFoundException ThrottlingException";
pub(super) const KINESIS: &str = "\
    AccessDeniedException DryRunOperationException ExpiredIteratorException ExpiredNextTokenException \
    InternalFailureException InvalidArgumentException KMSAccessDeniedException KMSDisabledException \
    KMSInvalidStateException KMSNotFoundException KMSOptInRequired KMSThrottlingException \
    LimitExceededException ProvisionedThroughputExceededException ResourceInUseException \
    ResourceNotFoundException ValidationException";
pub(super) const KMS: &str = "\
    AlreadyExistsException CloudHsmClusterInUseException CloudHsmClusterInvalidConfigurationException \
    CloudHsmClusterNotActiveException CloudHsmClusterNotFoundException CloudHsmClusterNotRelatedException \
    ConflictException CustomKeyStoreHasCMKsException CustomKeyStoreInvalidStateException \
    CustomKeyStoreNameInUseException CustomKeyStoreNotFoundException DependencyTimeoutException \
    DisabledException DryRunOperationException ExpiredImportTokenException IncorrectKeyException \
    IncorrectKeyMaterialException IncorrectTrustAnchorException InvalidAliasNameException \
    InvalidArnException InvalidCiphertextException InvalidGrantIdException InvalidGrantTokenException \
    InvalidImportTokenException InvalidKeyUsageException InvalidMarkerException KMSInternalException \
    KMSInvalidMacException KMSInvalidSignatureException KMSInvalidStateException KeyUnavailableException \
    LimitExceededException MalformedPolicyDocumentException NotFoundException TagException \
    UnsupportedOperationException XksKeyAlreadyInUseException XksKeyInvalidConfigurationException \
    XksKeyNotFoundException XksProxyIncorrectAuthenticationCredentialException \
    XksProxyInvalidConfigurationException XksProxyInvalidResponseException XksProxyUriEndpointInUseException \
    XksProxyUriInUseException XksProxyUriUnreachableException XksProxyVpcEndpointServiceInUseException \
    XksProxyVpcEndpointServiceInvalidConfigurationException XksProxyVpcEndpointServiceNotFoundException";
pub(super) const LAMBDA: &str = "\
    AliasLimitExceededException CallbackTimeoutException CapacityProviderLimitExceededException \
    CodeArtifactUserDeletedException CodeArtifactUserFailedException CodeArtifactUserPendingException \
    CodeSigningConfigNotFoundException CodeStorageExceededException CodeVerificationFailedException \
    DurableExecutionAlreadyStartedException EC2AccessDeniedException EC2ThrottledException \
    EC2UnexpectedException EFSIOException EFSMountConnectivityException EFSMountFailureException \
    EFSMountTimeoutException ENILimitReachedException ENINotReadyException \
    FunctionVersionsPerCapacityProviderLimitExceededException InvalidCodeSignatureException \
    InvalidParameterValueException InvalidRequestContentException InvalidRuntimeException \
    InvalidSecurityGroupIDException InvalidSubnetIDException InvalidZipFileException \
    KMSAccessDeniedException KMSDisabledException KMSInvalidStateException KMSNotFoundException \
    ModeNotSupportedException NoPublishedVersionException PolicyLengthExceededException \
    PreconditionFailedException ProvisionedConcurrencyConfigNotFoundException PublicPolicyException \
    RecursiveInvocationException RequestTooLargeException ResourceConflictException ResourceInUseException \
    ResourceNotFoundException ResourceNotReadyException S3FilesMountConnectivityException \
    S3FilesMountFailureException S3FilesMountTimeoutException SerializedRequestEntityTooLargeException \
    ServiceException ServiceQuotaExceededException SnapStartException SnapStartNotReadyException \
    SnapStartRegenerationFailureException SnapStartTimeoutException SubnetIPAddressLimitReachedException \
    TooManyRequestsException UnsupportedMediaTypeException";
pub(super) const LOGS: &str = "\
    AccessDeniedException ConflictException DataAlreadyAcceptedException InternalServerException \
    InternalStreamingException InvalidOperationException InvalidParameterException \
    InvalidSequenceTokenException LimitExceededException MalformedQueryException OperationAbortedException \
    ResourceAlreadyExistsException ResourceNotFoundException ServiceQuotaExceededException \
    ServiceUnavailableException SessionStreamingException SessionTimeoutException ThrottlingException \
    TooManyTagsException UnrecognizedClientException ValidationException";
pub(super) const S3: &str = "\
    AccessDenied AnnotationLimitExceeded AnnotationNameTooLong BucketAlreadyExists BucketAlreadyOwnedByYou \
    EncryptionTypeMismatch IdempotencyParameterMismatch InvalidAnnotationName InvalidObjectState \
    InvalidPrefix InvalidRequest InvalidWriteOffset NoSuchAnnotation NoSuchBucket NoSuchKey NoSuchUpload \
    ObjectAlreadyInActiveTierError ObjectNotInActiveTierError TooManyParts UnsupportedMediaType";
pub(super) const SECRETS_MANAGER: &str = "\
    DecryptionFailure EncryptionFailure InternalServiceError InvalidNextTokenException \
    InvalidParameterException InvalidRequestException LimitExceededException \
    MalformedPolicyDocumentException PreconditionNotMetException PublicPolicyException \
    ResourceExistsException ResourceNotFoundException";
pub(super) const SFN: &str = "\
    ActivityAlreadyExists ActivityDoesNotExist ActivityLimitExceeded ActivityWorkerLimitExceeded \
    ConflictException ExecutionAlreadyExists ExecutionDoesNotExist ExecutionLimitExceeded \
    ExecutionNotRedrivable InvalidArn InvalidDefinition InvalidEncryptionConfiguration InvalidExecutionInput \
    InvalidLoggingConfiguration InvalidName InvalidOutput InvalidToken InvalidTracingConfiguration \
    KmsAccessDeniedException KmsInvalidStateException KmsThrottlingException MissingRequiredParameter \
    ResourceNotFound ServiceQuotaExceededException StateMachineAlreadyExists StateMachineDeleting \
    StateMachineDoesNotExist StateMachineLimitExceeded StateMachineTypeNotSupported TaskDoesNotExist \
    TaskTimedOut TooManyTags ValidationException";
pub(super) const SNS: &str = "\
    AuthorizationError BatchEntryIdsNotDistinct BatchRequestTooLong ConcurrentAccess EmptyBatchRequest \
    EndpointDisabled FilterPolicyLimitExceeded InternalError InvalidBatchEntryId InvalidParameter \
    InvalidSecurity InvalidState KMSAccessDenied KMSDisabled KMSInvalidState KMSNotFound KMSOptInRequired \
    KMSThrottling NotFound OptedOut ParameterValueInvalid PlatformApplicationDisabled ReplayLimitExceeded \
    ResourceNotFound StaleTag SubscriptionLimitExceeded TagLimitExceeded TagPolicy Throttled \
    TooManyEntriesInBatchRequest TopicLimitExceeded UserError ValidationException VerificationException";
pub(super) const SQS: &str = "\
    BatchEntryIdsNotDistinct BatchRequestTooLong EmptyBatchRequest InvalidAddress InvalidAttributeName \
    InvalidAttributeValue InvalidBatchEntryId InvalidIdFormat InvalidMessageContents InvalidSecurity \
    KmsAccessDenied KmsDisabled KmsInvalidKeyUsage KmsInvalidState KmsNotFound KmsOptInRequired KmsThrottled \
    MessageNotInflight OverLimit PurgeQueueInProgress QueueDeletedRecently QueueDoesNotExist QueueNameExists \
    ReceiptHandleIsInvalid RequestThrottled ResourceNotFoundException TooManyEntriesInBatchRequest \
    UnsupportedOperation";
pub(super) const SSM: &str = "\
    AccessDeniedException AlreadyExistsException AssociatedInstances AssociationAlreadyExists \
    AssociationDoesNotExist AssociationExecutionDoesNotExist AssociationLimitExceeded \
    AssociationVersionLimitExceeded AutomationDefinitionNotApprovedException \
    AutomationDefinitionNotFoundException AutomationDefinitionVersionNotFoundException \
    AutomationExecutionLimitExceededException AutomationExecutionNotFoundException \
    AutomationStepNotFoundException ComplianceTypeCountLimitExceededException ConflictException \
    CustomSchemaCountLimitExceededException DocumentAlreadyExists DocumentLimitExceeded \
    DocumentPermissionLimit DocumentVersionLimitExceeded DoesNotExistException DuplicateDocumentContent \
    DuplicateDocumentVersionName DuplicateInstanceId FeatureNotAvailableException \
    HierarchyLevelLimitExceededException HierarchyTypeMismatchException IdempotentParameterMismatch \
    IncompatiblePolicyException InternalServerError InvalidActivation InvalidActivationId \
    InvalidAggregatorException InvalidAllowedPatternException InvalidAssociation InvalidAssociationVersion \
    InvalidAutomationExecutionParametersException InvalidAutomationSignalException \
    InvalidAutomationStatusUpdateException InvalidCommandId InvalidDeleteInventoryParametersException \
    InvalidDeletionIdException InvalidDocument InvalidDocumentContent InvalidDocumentOperation \
    InvalidDocumentSchemaVersion InvalidDocumentType InvalidDocumentVersion InvalidFilter InvalidFilterKey \
    InvalidFilterOption InvalidFilterValue InvalidInstanceId InvalidInstanceInformationFilterValue \
    InvalidInstancePropertyFilterValue InvalidInventoryGroupException InvalidInventoryItemContextException \
    InvalidInventoryRequestException InvalidItemContentException InvalidKeyId InvalidNextToken \
    InvalidNotificationConfig InvalidOptionException InvalidOutputFolder InvalidOutputLocation \
    InvalidParameters InvalidPermissionType InvalidPluginName InvalidPolicyAttributeException \
    InvalidPolicyTypeException InvalidResourceId InvalidResourceType InvalidResultAttributeException \
    InvalidRole InvalidSchedule InvalidTag InvalidTarget InvalidTargetMaps InvalidTypeNameException \
    InvalidUpdate InvocationDoesNotExist ItemContentMismatchException ItemSizeLimitExceededException \
    MalformedResourcePolicyDocumentException MaxDocumentSizeExceeded NoLongerSupportedException \
    OpsItemAccessDeniedException OpsItemAlreadyExistsException OpsItemConflictException \
    OpsItemInvalidParameterException OpsItemLimitExceededException OpsItemNotFoundException \
    OpsItemRelatedItemAlreadyExistsException OpsItemRelatedItemAssociationNotFoundException \
    OpsMetadataAlreadyExistsException OpsMetadataInvalidArgumentException \
    OpsMetadataKeyLimitExceededException OpsMetadataLimitExceededException OpsMetadataNotFoundException \
    OpsMetadataTooManyUpdatesException ParameterAlreadyExists ParameterLimitExceeded \
    ParameterMaxVersionLimitExceeded ParameterNotFound ParameterPatternMismatchException \
    ParameterVersionLabelLimitExceeded ParameterVersionNotFound PoliciesLimitExceededException \
    ResourceDataSyncAlreadyExistsException ResourceDataSyncConflictException \
    ResourceDataSyncCountExceededException ResourceDataSyncInvalidConfigurationException \
    ResourceDataSyncNotFoundException ResourceInUseException ResourceLimitExceededException \
    ResourceNotFoundException ResourcePolicyConflictException ResourcePolicyInvalidParameterException \
    ResourcePolicyLimitExceededException ResourcePolicyNotFoundException ServiceQuotaExceededException \
    ServiceSettingNotFound StatusUnchanged SubTypeCountLimitExceededException TargetInUseException \
    TargetNotConnected ThrottlingException TooManyTagsError TooManyUpdates TotalSizeLimitExceededException \
    UnsupportedCalendarException UnsupportedFeatureRequiredException \
    UnsupportedInventoryItemContextException UnsupportedInventorySchemaVersionException \
    UnsupportedOperatingSystem UnsupportedOperationException UnsupportedParameterType \
    UnsupportedPlatformType ValidationException";
pub(super) const STS: &str = "\
    ExpiredTokenException ExpiredTradeInTokenException IDPCommunicationError IDPRejectedClaim \
    InvalidAuthorizationMessageException InvalidIdentityToken JWTPayloadSizeExceededException \
    MalformedPolicyDocument OutboundWebIdentityFederationDisabledException PackedPolicyTooLarge \
    RegionDisabledException SessionDurationEscalationException";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_in_a_model_as_a_whole_word() {
        for (codes, code, expected) in [
            (DYNAMODB, "ResourceNotFoundException", true),
            (DYNAMODB, "BackupInUseException", true),
            (DYNAMODB, "TransactionInProgressException", true),
            (DYNAMODB, "ValidationException", false),
            (SFN, "ValidationException", true),
            (SNS, "NotFound", true),
            (SNS, "NotFoundException", false),
            (S3, "NoSuchBucket", true),
            (S3, "NoSuch", false),
            (S3, "", false),
        ] {
            assert_eq!(has(codes, code), expected, "{code}");
        }
    }
}
